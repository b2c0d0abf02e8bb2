"""``kalends agent upload``: a script at the broker, under a name."""

from __future__ import annotations

from pathlib import Path

import click

from kalends.cli import _agent_words, _output
from kalends.cli._settings import ServerCommand, Settings, pass_settings
from kalends.client.scripts import read_script


@click.command("upload", cls=ServerCommand)
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@pass_settings
def command(settings: Settings, name: str, file: Path) -> None:
    """Keep a script at the broker, under a name.

    It is checked first, and replaces what had this name. `kalends agent check FILE` says more about
    what is wrong with it.
    """
    source = read_script(file)
    zone = settings.time_zone()
    with settings.connect() as client:
        view = client.upload_agent(name, source)
    _output.answer(settings, "agent", view, lambda: _agent_words.agent_lines(view, zone))
