"""``kalends move``: move a reservation to another time."""

from __future__ import annotations

import click

from kalends.cli import _request_options
from kalends.cli._change import change_options, send
from kalends.cli._settings import ServerCommand, Settings, pass_settings
from kalends.core.times import format_time


@click.command(
    "move",
    cls=ServerCommand,
    examples=(
        "kalends move 5d0c1f2e --to 'tomorrow 14:00'",
        "kalends move 5d0c1f2e --to 'fri 09:00' --wait 2m",
    ),
)
@click.argument("id")
@click.option("--to", metavar="TIME", required=True, help="New start, e.g. 'tomorrow 14:00'.")
@change_options
@pass_settings
def command(settings: Settings, id: str, to: str, key: str, wait: str) -> None:
    """Move a reservation to another time.

    Keeps the old time until every site has agreed to the new one.
    """
    wait_s = _request_options.wait_s(wait)
    zone = settings.time_zone()
    with settings.connect() as client:
        start_s = client.time_s(to)
        send(
            settings, client, id, key, f"to start at {format_time(start_s, zone)}",
            lambda full, key: client.move(full, start_s, key=key, wait_s=wait_s),
        )  # fmt: skip
