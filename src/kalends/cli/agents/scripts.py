"""Scripts at the broker, and their runs at sites: ``kalends agent upload`` and what follows it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import rows, short_time
from kalends.cli.console.server_parts import agent_parts
from kalends.cli.console.settings import Settings
from kalends.cli.console.site_calls import SITE_HELP, site_client
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.requests import agent_options, request_options
from kalends.cli.requests.request_texts import HASH_SHOWN
from kalends.contract.calls import AgentView, RunView
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import short_id
from kalends.core.times import format_time
from kalends.rim.script_files import read_script

if TYPE_CHECKING:
    from kalends.client.trials.trial_run import Replay


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


RUNS_MAX = 1_000

EXIT_DIFFERS = 1


@server_command(
    "runs", "kalends agent runs --site sdsc", "kalends agent runs 5d0c1f2e --site sdsc --count 10"
)
@click.argument("id", required=False)
@click.option("--site", required=True, metavar="SITE", help=SITE_HELP)
@click.option("--count", default=50, show_default=True, type=WholeNumber(1, RUNS_MAX),
              metavar="N", help="Maximum number of rows.")  # fmt: skip
def runs(settings: Settings, id: str | None, site: str, count: int) -> None:
    """List the runs of your scripts at a site.

    Newest first; with an ID, for that request only. `kalends agent replay NUMBER --site SITE` repeats a
    run.
    """
    zone = settings.time_zone()
    full = ""
    if id:
        with settings.connect() as client:
            full = client.full_id(id)
    with site_client(settings, site) as client:
        found = client.agent_runs(full, count=min(count + 1, RUNS_MAX))
    shown = found[:count]
    output.answer(settings, "runs", shown, lambda: _run_listing(shown, zone))
    if len(found) > count:
        more = min(10 * count, RUNS_MAX)
        words = f"kalends agent runs {f'{id} ' if id else ''}--site {site} --count {more}"
        output.say(f"there are more: {words}", error=True)
    elif count == RUNS_MAX == len(found):
        output.say(f"only the newest {RUNS_MAX:,} runs are listed", error=True)


def _run_listing(runs: Iterable[RunView], zone: ZoneInfo) -> list[str]:
    """Return one row for each run; the last column is the error, if any."""
    return rows(
        ("RUN", f"AT ({zone.key})", "REQUEST", "SCRIPT", "CALL", "CODE", "CHOSEN", "STEPS", "CPU MS",
         "DETAIL"),
        [
            (
                run.run,
                short_time(run.at_ms // 1000, zone),
                short_id(run.id) or "-",
                run.script[:HASH_SHOWN],
                run.function,
                run.code,
                run.chosen,
                run.steps,
                f"{run.cpu_us / 1000:.1f}",
                f"line {run.line}: {run.detail}" if run.line else run.detail,
            )
            for run in runs
        ],
        right=("RUN", "CHOSEN", "STEPS", "CPU MS"),
    )  # fmt: skip


@server_command(
    "replay",
    "kalends agent replay 7 --site sdsc --save run.record",
    "kalends agent replay run.record",
)
@click.argument("run", metavar="FILE|NUMBER")
@click.option("--site", metavar="SITE", help=f"Site of the run. {SITE_HELP}")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="New file for the record, to replay it later.")  # fmt: skip
def replay(settings: Settings, run: str, site: str | None, save: Path | None) -> int:
    """Repeat a recorded run here and compare.

    With --site, fetches the record of run NUMBER from that site; otherwise reads it from FILE. A record
    holds all inputs of the script, so that the result must be the same; the exit code is 1 if it is not.
    """
    with agent_parts():
        from kalends.client.trials import trial_run
    if site:
        with site_client(settings, site) as client:
            record = client.agent_run(run).record
    else:
        record = _read(Path(run))
    if save is not None:
        _keep(save, record)
    replayed = asyncio.run(trial_run.replay(record))
    output.answer(settings, "replayed", replayed, lambda: _lines(replayed))
    return 0 if replayed.same else EXIT_DIFFERS


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"cannot read the record: {error.strerror}",
            where=str(path),
            remedy="give the file of a record, or --site and the number of a run",
        ) from error


def _keep(path: Path, record: bytes) -> None:
    try:
        with path.open("xb") as file:
            file.write(record)
    except OSError as error:
        raise InvalidInput(
            f"cannot write the record: {error.strerror}",
            where=str(path),
            remedy="give a new file in an existing directory",
        ) from error


def _lines(replayed: Replay) -> list[str]:
    facts = [
        ("run", f"{replayed.number} at {replayed.site}"),
        ("request", replayed.rid),
        ("script", replayed.script),
        ("call", replayed.function),
        ("ended", replayed.code),
        ("steps", str(replayed.steps)),
        ("engine", replayed.engine),
        ("here", replayed.place),
    ]
    verdict = "same result" if replayed.same else "different result"
    told = f"{verdict}: {replayed.detail}" if replayed.detail else verdict
    return [told, *(f"  {name:8} {text}" for name, text in facts if text)]
