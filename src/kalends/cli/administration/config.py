"""``kalends admin config``: print a commented configuration file."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import LocalCommand
from kalends.cli.console.server_parts import server_parts
from kalends.cli.console.settings import Settings, pass_settings


@click.command(
    "config",
    cls=LocalCommand,
    examples=(
        "kalends admin config > kalends.toml",
        "kalends admin config --json",
    ),
)
@pass_settings
def command(settings: Settings) -> None:
    """Print a commented configuration file.

    Write it to a file, edit it, and run `kalends serve FILE`.
    """
    with server_parts():
        from kalends.serving.example_configuration import example
    text = example()
    output.answer(settings, "config", {"toml": text}, text.splitlines)
