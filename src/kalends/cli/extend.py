"""``kalends extend``: make a reservation longer."""

from __future__ import annotations

import click

from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.requests import request_options
from kalends.cli.requests.change import change_options, length_words, send


@click.command(
    "extend",
    cls=ServerCommand,
    examples=("kalends extend 5d0c1f2e --by 30m", "kalends extend 5d0c1f2e --for 3h"),
)
@click.argument("id")
@click.option("--by", metavar="DURATION", help="Added length, e.g. 30m.")
@click.option("--for", "duration", metavar="DURATION", help="New length, e.g. 3h.")
@change_options
@pass_settings
def command(
    settings: Settings, id: str, by: str | None, duration: str | None, key: str, wait: str
) -> None:
    """Make a reservation longer.

    Keeps the start. If any site refuses, the reservation stays as it was.
    """
    wait_s = request_options.wait_s(wait)
    with settings.connect() as client:
        send(
            settings, client, id, key, length_words("longer", by, duration),
            lambda full, key: client.extend(full, by=by, duration=duration, key=key, wait_s=wait_s),
        )  # fmt: skip
