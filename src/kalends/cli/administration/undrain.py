"""``kalends admin undrain``: let a server take new claims again."""

from __future__ import annotations

import click

from kalends.cli import _output
from kalends.cli._settings import ServerCommand, Settings, pass_settings


@click.command("undrain", cls=ServerCommand)
@pass_settings
def command(settings: Settings) -> None:
    """Let a server take new claims again.

    Asks the site or broker at --broker; needs the scope admin.
    """
    with settings.connect() as client:
        health = client.drain(False)
    _output.answer(
        settings, "health", health, lambda: [f"{health.role} {health.name}: {health.status}"]
    )
