"""``kalends cancel``: cancel a reservation at all its sites."""

from __future__ import annotations

import click

from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.requests import request_options


@click.command(
    "cancel",
    cls=ServerCommand,
    examples=("kalends cancel 5d0c1f2e", "kalends cancel 5d0c1f2e --wait 2m"),
)
@click.argument("id")
@request_options.wait_option
@pass_settings
def command(settings: Settings, id: str, wait: str) -> None:
    """Cancel a reservation at all its sites.

    Also ends requests that hold slots or still wait. A repeated call does no harm.
    """
    wait_s = request_options.wait_s(wait)
    with settings.connect() as client:
        view = client.cancel(id, wait_s=wait_s)
    request_options.answer(settings, view)
