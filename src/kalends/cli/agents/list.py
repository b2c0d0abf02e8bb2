"""``kalends agent list``: list your scripts at the broker."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.requests import agent_words


@click.command(
    "list",
    cls=ServerCommand,
    examples=("kalends agent list", "kalends agent list --json"),
)
@pass_settings
def command(settings: Settings) -> None:
    """List your scripts at the broker."""
    zone = settings.time_zone()
    with settings.connect() as client:
        agents = client.agents()
    output.answer(settings, "agents", agents, lambda: agent_words.agent_listing(agents, zone))
