"""``kalends release``: release all slots that a request holds."""

from __future__ import annotations

import click

from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.requests import request_options


@click.command(
    "release",
    cls=ServerCommand,
    examples=("kalends release 5d0c1f2e", "kalends release 5d0c1f2e --wait 2m"),
)
@click.argument("id")
@request_options.wait_option
@pass_settings
def command(settings: Settings, id: str, wait: str) -> None:
    """Release all slots that a request holds.

    A request that still waits also leaves its wait queues. A repeated call does no harm.
    """
    wait_s = request_options.wait_s(wait)
    with settings.connect() as client:
        view = client.release(id, wait_s=wait_s)
    request_options.answer(settings, view)
