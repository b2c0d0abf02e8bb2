"""``kalends agent tell``: send an agent a message, or replace it."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.requests import agent_options, request_options


@click.command(
    "tell",
    cls=ServerCommand,
    examples=(
        "kalends agent tell 5d0c1f2e now",
        "kalends agent tell 5d0c1f2e --agent ready:latest",
    ),
)
@click.argument("id")
@click.argument("message", required=False)
@click.option("--agent", metavar="AGENT",
              help="New agent of the request: a FILE, a NAME or ready:NAME.")  # fmt: skip
@click.option("--key", default="", metavar="KEY",
              help="Idempotency key: a repeated call with the same key sends once.  "
              "[default: a new one]")  # fmt: skip
@pass_settings
def command(settings: Settings, id: str, message: str | None, agent: str | None, key: str) -> None:
    """Send an agent a message.

    ID is an open request. MESSAGE is JSON or a word. The agent reads it on its next visit to each site.
    """
    value = None if message is None else agent_options.plain_data(message, "MESSAGE")
    if value is None and agent is None:
        raise click.UsageError("Give a MESSAGE, or --agent AGENT.")
    other = agent_options.agent_named(agent)
    with settings.connect() as client:
        full, key = client.full_id(id), key or client.new_key()
        output.say(f"{'key':8} {key}", error=True)
        view = client.tell_agent(full, message=value, agent=other, key=key)
    request_options.answer(settings, view)
