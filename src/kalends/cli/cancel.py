"""``kalends cancel``: a reservation, on all its sites."""

from __future__ import annotations

import click

from kalends.cli import _request_options
from kalends.cli._identify import full_id
from kalends.cli._settings import ServerCommand, Settings, pass_settings


@click.command("cancel", cls=ServerCommand)
@click.argument("id")
@_request_options.wait_option
@pass_settings
def command(settings: Settings, id: str, wait: str) -> None:
    """Cancel a reservation on all its sites.

    What is only held, or still waits, is given up. Repeating it is harmless.
    """
    wait_s = _request_options.wait_s(wait)
    with settings.connect() as client:
        view = client.cancel(full_id(client, id), wait_s=wait_s)
    _request_options.answer(settings, view)
