"""``kalends move``: move a reservation to another time, or a job to another site."""

from __future__ import annotations

import click

from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.requests import request_options
from kalends.cli.requests.change import change_options, send
from kalends.core.times import format_time


@click.command(
    "move",
    cls=ServerCommand,
    examples=(
        "kalends move 5d0c1f2e --to 'tomorrow 14:00'",
        "kalends move 5d0c1f2e --elsewhere",
    ),
)
@click.argument("id")
@click.option("--to", metavar="TIME", default="", help="New start, e.g. 'tomorrow 14:00'.")
@click.option(
    "--elsewhere",
    is_flag=True,
    help="Move a job to another site, if it was submitted --at-most-once and has not started, or --rerun.",
)
@change_options
@pass_settings
def command(
    settings: Settings, id: str, to: str, elsewhere: bool, key: str, wait: str
) -> None:  # fmt: skip
    """Move a reservation to another time, or a job to another site.

    Keeps the old time, or place, until every site has agreed to the new one. A running job is then ended,
    and restarts at the other site.
    """
    if bool(to) == elsewhere:
        raise click.UsageError("Give one of --to and --elsewhere.")
    wait_s = request_options.wait_s(wait)
    zone = settings.time_zone()
    with settings.connect() as client:
        if elsewhere:
            send(
                settings, client, id, key, "to another site",
                lambda full, key: client.place_elsewhere(full, key=key, wait_s=wait_s),
            )  # fmt: skip
            return
        start_s = client.start_after_move_s(id, to, where="--to")
        send(
            settings, client, id, key, f"to start at {format_time(start_s, zone)}",
            lambda full, key: client.move(full, start_s, key=key, wait_s=wait_s),
        )  # fmt: skip
