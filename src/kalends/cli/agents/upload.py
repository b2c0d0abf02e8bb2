"""``kalends agent upload``: upload a script to the broker."""

from __future__ import annotations

from pathlib import Path

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.requests import agent_words
from kalends.client.inputs.scripts import read_script


@click.command(
    "upload",
    cls=ServerCommand,
    examples=(
        "kalends agent upload mornings mornings.py",
        "kalends agent upload mornings mornings.py --json",
    ),
)
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@pass_settings
def command(settings: Settings, name: str, file: Path) -> None:
    """Upload a script to the broker.

    The broker checks it, and replaces an earlier script of this name. `kalends agent check FILE` explains
    errors in detail.
    """
    source = read_script(file)
    zone = settings.time_zone()
    with settings.connect() as client:
        view = client.upload_agent(name, source)
    output.answer(settings, "agent", view, lambda: agent_words.agent_lines(view, zone))
