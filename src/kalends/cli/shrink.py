"""``kalends shrink``: make a reservation shorter or smaller."""

from __future__ import annotations

import click

from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.requests import request_options
from kalends.cli.requests.change import change_options, length_words, send, units_kept


@click.command(
    "shrink",
    cls=ServerCommand,
    examples=(
        "kalends shrink 5d0c1f2e --by 30m",
        "kalends shrink 5d0c1f2e --units sdsc/sp2=32",
    ),
)
@click.argument("id")
@click.option("--by", metavar="DURATION", help="Removed length, e.g. 30m.")
@click.option("--for", "duration", metavar="DURATION", help="New length, e.g. 1h.")
@click.option("--units", "units", metavar="RES=N", multiple=True,
              help="Units kept of a resource, e.g. sdsc/sp2=32; may be repeated.")  # fmt: skip
@change_options
@pass_settings
def command(
    settings: Settings,
    id: str,
    by: str | None,
    duration: str | None,
    units: tuple[str, ...],
    key: str,
    wait: str,
) -> None:
    """Make a reservation shorter or smaller.

    Keeps the start.
    """
    wait_s = request_options.wait_s(wait)
    kept = units_kept(units)
    asked = [length_words("shorter", by, duration)] if by or duration or not kept else []
    asked += [f"to {count} units of {resource}" for resource, count in kept.items()]
    with settings.connect() as client:
        send(
            settings, client, id, key, ", ".join(asked),
            lambda full, key: client.shrink(
                full, by=by, duration=duration, units=kept, key=key, wait_s=wait_s
            ),
        )  # fmt: skip
