"""Scripts at the broker: ``kalends agent upload``, ``list``, ``show``, ``delete`` and ``tell``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import rows, short_time
from kalends.cli.console.settings import Settings
from kalends.cli.requests import agent_options, request_options
from kalends.cli.requests.words import HASH_SHOWN
from kalends.client.inputs.scripts import read_script
from kalends.contract.calls import AgentView
from kalends.core.times import format_time


@server_command(
    "upload",
    "kalends agent upload mornings mornings.py",
    "kalends agent upload mornings mornings.py --json",
)
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
def upload(settings: Settings, name: str, file: Path) -> None:
    """Upload a script to the broker.

    The broker checks it, and replaces an earlier script of this name. `kalends agent check FILE` explains
    errors in detail.
    """
    source = read_script(file)
    zone = settings.time_zone()
    with settings.connect() as client:
        view = client.upload_agent(name, source)
    output.answer(settings, "agent", view, lambda: _agent_lines(view, zone))


@server_command("list", "kalends agent list", "kalends agent list --json")
def list_scripts(settings: Settings) -> None:
    """List your scripts at the broker."""
    zone = settings.time_zone()
    with settings.connect() as client:
        agents = client.agents()
    output.answer(settings, "agents", agents, lambda: _agent_listing(agents, zone))


@server_command("show", "kalends agent show mornings", "kalends agent show mornings > mornings.py")
@click.argument("name")
def show(settings: Settings, name: str) -> None:
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
    for line in _agent_lines(view, zone):
        output.say(line, error=True)
    output.say_script(view.source)


@server_command("delete", "kalends agent delete mornings", "kalends agent delete mornings --json")
@click.argument("name")
def delete(settings: Settings, name: str) -> None:
    """Delete a script from the broker.

    Open requests still use the script.
    """
    with settings.connect() as client:
        view = client.delete_agent(name)
    output.answer(settings, "agent", view, lambda: [f"deleted {view.name}"])


@server_command(
    "tell", "kalends agent tell 5d0c1f2e now", "kalends agent tell 5d0c1f2e --agent ready:latest"
)
@click.argument("id")
@click.argument("message", required=False)
@click.option("--agent", metavar="AGENT",
              help="New agent of the request: a FILE, a NAME or ready:NAME.")  # fmt: skip
@click.option("--key", default="", metavar="KEY",
              help="Idempotency key: a repeated call with the same key sends once.  "
              "[default: a new one]")  # fmt: skip
def tell(settings: Settings, id: str, message: str | None, agent: str | None, key: str) -> None:
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


def _agent_lines(view: AgentView, zone: ZoneInfo) -> list[str]:
    """Describe one script: its name, hash, size and functions."""
    facts = [
        ("script", view.script),
        ("size", f"{view.size_bytes} bytes"),
        ("defines", ", ".join(view.functions)),
        ("uploaded", format_time(view.uploaded_at, zone)),
    ]
    return [f"agent {view.name}", *(f"  {name:8} {text}" for name, text in facts if text)]


def _agent_listing(views: Iterable[AgentView], zone: ZoneInfo) -> list[str]:
    """Return one row for each script."""
    return rows(
        ("NAME", "SCRIPT", "BYTES", "DEFINES", f"UPLOADED ({zone.key})"),
        [
            (
                view.name,
                view.script[:HASH_SHOWN],
                view.size_bytes,
                ", ".join(view.functions) or "-",
                short_time(view.uploaded_at, zone),
            )
            for view in views
        ],
        right=("BYTES",),
    )
