"""``kalends lock``: lock all slots that a request holds."""

from __future__ import annotations

import click

from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.requests import request_options


@click.command(
    "lock",
    cls=ServerCommand,
    examples=("kalends lock 5d0c1f2e", "kalends lock 5d0c1f2e --wait 2m"),
)
@click.argument("id")
@request_options.wait_option
@pass_settings
def command(settings: Settings, id: str, wait: str) -> None:
    """Lock all slots that a request holds.

    Locks all of them or none, and makes the hold a reservation. A repeated call does no harm.
    """
    wait_s = request_options.wait_s(wait)
    with settings.connect() as client:
        view = client.lock(id, wait_s=wait_s)
    request_options.answer(settings, view)
