"""``kalends agent replay``: does a recorded run come out the same here?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kalends.cli import _output
from kalends.cli._server_parts import agent_parts
from kalends.cli._settings import ServerCommand, Settings, pass_settings
from kalends.cli._sites import SITE_HELP, site_settings
from kalends.core.errors import InvalidInput

if TYPE_CHECKING:
    from kalends.client.trials.run_replay import Replay

EXIT_DIFFERS = 1


@click.command("replay", cls=ServerCommand)
@click.argument("run", metavar="FILE|NUMBER")
@click.option("--site", metavar="SITE", help=f"Where it ran. {SITE_HELP}")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Keep the record in a new file, to replay it later.")  # fmt: skip
@pass_settings
def command(settings: Settings, run: str, site: str | None, save: Path | None) -> int:
    """Run a recorded run again here, and compare.

    With --site its record is fetched from there by its number, else read from a file. A record holds
    all that the script was shown, so that the same must come out. Ends with exit code 1 when it does
    not.
    """
    with agent_parts():
        from kalends.client.trials.run_replay import replay
    record = _fetched(settings, run, site) if site else _read(Path(run))
    if save is not None:
        _keep(save, record)
    replayed = asyncio.run(replay(record))
    _output.answer(settings, "replayed", replayed, lambda: _lines(replayed))
    return 0 if replayed.same else EXIT_DIFFERS


def _fetched(settings: Settings, number: str, site: str) -> bytes:
    with site_settings(settings, site).connect() as client:
        return client.agent_run(number).record


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"this record cannot be read: {error.strerror}",
            where=str(path),
            remedy="name the file of a record, or give --site and the number of a run",
        ) from error


def _keep(path: Path, record: bytes) -> None:
    try:
        with path.open("xb") as file:
            file.write(record)
    except OSError as error:
        raise InvalidInput(
            f"the record cannot be kept there: {error.strerror}",
            where=str(path),
            remedy="name a file that is not there yet",
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
    verdict = "the same again" if replayed.same else "it differs"
    told = f"{verdict}: {replayed.detail}" if replayed.detail else verdict
    return [told, *(f"  {name:8} {text}" for name, text in facts if text)]
