"""``kalends admin config``: a configuration file to begin with."""

from __future__ import annotations

import click

from kalends.cli import _output
from kalends.cli._server_parts import server_parts
from kalends.cli._settings import LocalCommand, Settings, pass_settings


@click.command("config", cls=LocalCommand)
@pass_settings
def command(settings: Settings) -> None:
    """Print a commented configuration file.

    Write it to a file, change it, and start it with `kalends serve FILE`.
    """
    with server_parts():
        from kalends.serving.example_configuration import example
    text = example()
    _output.answer(settings, "config", {"toml": text}, text.splitlines)
