"""``kalends admin undrain``: accept new claims again."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings


@click.command(
    "undrain",
    cls=ServerCommand,
    examples=(
        "kalends admin undrain",
        "kalends admin undrain --broker http://127.0.0.1:7101",
    ),
)
@pass_settings
def command(settings: Settings) -> None:
    """Accept new claims again.

    Calls the site or broker at --broker and needs the scope admin.
    """
    with settings.connect() as client:
        health = client.drain(False)
    output.answer(
        settings, "health", health, lambda: [f"{health.role} {health.name}: {health.status}"]
    )
