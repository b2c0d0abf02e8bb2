"""``kalends agent list``: list your scripts at the broker."""

from __future__ import annotations

import click

from kalends.cli import _agent_words, _output
from kalends.cli._settings import ServerCommand, Settings, pass_settings


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
    _output.answer(settings, "agents", agents, lambda: _agent_words.agent_listing(agents, zone))
