"""``kalends agent delete``: delete a script from the broker."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings


@click.command(
    "delete",
    cls=ServerCommand,
    examples=(
        "kalends agent delete mornings",
        "kalends agent delete mornings --json",
    ),
)
@click.argument("name")
@pass_settings
def command(settings: Settings, name: str) -> None:
    """Delete a script from the broker.

    Open requests still use the script.
    """
    with settings.connect() as client:
        view = client.delete_agent(name)
    output.answer(settings, "agent", view, lambda: [f"deleted {view.name}"])
