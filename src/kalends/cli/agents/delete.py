"""``kalends agent delete``: the broker forgets a script."""

from __future__ import annotations

import click

from kalends.cli import _output
from kalends.cli._settings import ServerCommand, Settings, pass_settings


@click.command("delete", cls=ServerCommand)
@click.argument("name")
@pass_settings
def command(settings: Settings, name: str) -> None:
    """Let the broker forget a script.

    Requests under way keep it.
    """
    with settings.connect() as client:
        view = client.delete_agent(name)
    _output.answer(settings, "agent", view, lambda: [f"deleted {view.name}"])
