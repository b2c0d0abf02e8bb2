"""``kalends agent show``: print one of your scripts."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.requests import agent_words


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
        output.print_json("agent", view)
        return
    for line in agent_words.agent_lines(view, zone):
        output.say(line, error=True)
    output.say_script(view.source)
