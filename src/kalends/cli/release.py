"""``kalends release``: give up what a request holds."""

from __future__ import annotations

import click

from kalends.cli import _request_options
from kalends.cli._identify import full_id
from kalends.cli._settings import ServerCommand, Settings, pass_settings


@click.command("release", cls=ServerCommand)
@click.argument("id")
@_request_options.wait_option
@pass_settings
def command(settings: Settings, id: str, wait: str) -> None:
    """Give up what is held.

    What still waits is given up, too, with its place in line. Repeating it is harmless.
    """
    wait_s = _request_options.wait_s(wait)
    with settings.connect() as client:
        view = client.release(full_id(client, id), wait_s=wait_s)
    _request_options.answer(settings, view)
