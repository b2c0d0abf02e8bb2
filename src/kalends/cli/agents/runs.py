"""Runs of scripts at a site: ``kalends agent runs`` and ``replay``."""

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
from kalends.cli.requests.words import HASH_SHOWN
from kalends.contract.calls import RunView
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import short_id

if TYPE_CHECKING:
    from kalends.client.trials.run_replay import Replay


RUNS_MAX = 1_000

EXIT_DIFFERS = 1


@server_command(
    "runs", "kalends agent runs --site sdsc", "kalends agent runs 5d0c1f2e --site sdsc --count 10"
)
@click.argument("id", required=False)
@click.option("--site", required=True, metavar="SITE", help=SITE_HELP)
@click.option("--count", default=50, show_default=True, type=click.IntRange(1, RUNS_MAX),
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
        from kalends.client.trials import run_replay
    record = _fetched(settings, run, site) if site else _read(Path(run))
    if save is not None:
        _keep(save, record)
    replayed = asyncio.run(run_replay.replay(record))
    output.answer(settings, "replayed", replayed, lambda: _lines(replayed))
    return 0 if replayed.same else EXIT_DIFFERS


def _fetched(settings: Settings, number: str, site: str) -> bytes:
    with site_client(settings, site) as client:
        return client.agent_run(number).record


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
