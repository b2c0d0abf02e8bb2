"""``kalends admin drain``: refuse new claims; keep promises."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings


@click.command(
    "drain",
    cls=ServerCommand,
    examples=(
        "kalends admin drain",
        "kalends admin drain --broker http://127.0.0.1:7101",
    ),
)
@pass_settings
def command(settings: Settings) -> None:
    """Refuse new claims; keep promises.

    Calls the site or broker at --broker and needs the scope admin. `kalends admin undrain` ends it.
    """
    with settings.connect() as client:
        health = client.drain(True)
    output.answer(
        settings, "health", health, lambda: [f"{health.role} {health.name}: {health.status}"]
    )
