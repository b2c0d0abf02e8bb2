"""``kalends admin drain``: let a server take no new claims."""

from __future__ import annotations

import click

from kalends.cli import _output
from kalends.cli._settings import ServerCommand, Settings, pass_settings


@click.command("drain", cls=ServerCommand)
@pass_settings
def command(settings: Settings) -> None:
    """Let a server take no new claims.

    What is promised is kept. Asks the site or broker at --broker; needs the scope admin.
    """
    with settings.connect() as client:
        health = client.drain(True)
    _output.answer(
        settings, "health", health, lambda: [f"{health.role} {health.name}: {health.status}"]
    )
