"""``kalends agent show``: print one of your scripts."""

from __future__ import annotations

import click

from kalends.cli import _agent_words, _output
from kalends.cli._settings import ServerCommand, Settings, pass_settings


@click.command(
    "show",
    cls=ServerCommand,
    examples=(
        "kalends agent show mornings",
        "kalends agent show mornings > mornings.py",
    ),
)
@click.argument("name")
@pass_settings
def command(settings: Settings, name: str) -> None:
    """Print one of your scripts.

    NAME may also be the hash of a script. The script goes to standard output, its description to
    standard error.
    """
    zone = settings.time_zone()
    with settings.connect() as client:
        view = client.agent(name)
    if settings.json:
        _output.print_json("agent", view)
        return
    for line in _agent_words.agent_lines(view, zone):
        _output.say(line, error=True)
    _output.say_script(view.source)
