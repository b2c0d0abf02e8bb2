"""``kalends agent replay``: repeat a recorded run here and compare."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.server_parts import agent_parts
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.console.site_calls import SITE_HELP, site_client
from kalends.core.errors import InvalidInput

if TYPE_CHECKING:
    from kalends.client.trials.run_replay import Replay

EXIT_DIFFERS = 1


@click.command(
    "replay",
    cls=ServerCommand,
    examples=(
        "kalends agent replay 7 --site sdsc --save run.record",
        "kalends agent replay run.record",
    ),
)
@click.argument("run", metavar="FILE|NUMBER")
@click.option("--site", metavar="SITE", help=f"Site of the run. {SITE_HELP}")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="New file for the record, to replay it later.")  # fmt: skip
@pass_settings
def command(settings: Settings, run: str, site: str | None, save: Path | None) -> int:
    """Repeat a recorded run here and compare.

    With --site, fetches the record of run NUMBER from that site; otherwise reads it from FILE. A record
    holds all inputs of the script, so that the result must be the same; the exit code is 1 if it is not.
    """
    with agent_parts():
        from kalends.client.trials.run_replay import replay
    record = _fetched(settings, run, site) if site else _read(Path(run))
    if save is not None:
        _keep(save, record)
    replayed = asyncio.run(replay(record))
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
