"""Moves of stores between files and databases: ``kalends admin move-store``."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kalends.cli.admin._store_arguments import AnyStoreArgument, address_of
from kalends.cli.console import output
from kalends.cli.console.commands import local_command
from kalends.cli.console.progress import LiveLine
from kalends.cli.console.server_parts import server_parts
from kalends.core.errors import InvalidInput
from kalends.stores.sqlite.sqlite_file import runs_path

if TYPE_CHECKING:
    from kalends.cli.console.settings import Settings
    from kalends.stores.moves.move import Moved


@local_command(
    "move-store",
    "kalends admin move-store npaci.sqlite postgresql://kalends@db1/npaci",
    "kalends admin move-store postgresql://kalends@db1/npaci npaci.sqlite --json",
)
@click.argument("source", type=AnyStoreArgument())
@click.argument("target", type=AnyStoreArgument(exists=False))
def move_store(settings: Settings, source: Path | str, target: Path | str) -> None:
    """Move a store from a file to a database, or back.

    Stop all its servers first. SOURCE is the store of a broker or a site, TARGET its new place. One is a
    file, the other the URL of a PostgreSQL database. The password belongs in the file that PGPASSFILE names.
    TARGET must be empty, or an earlier place of the same store.

    Copies all tables, and compares every row, before SOURCE is changed. Then closes SOURCE: a server that is
    started on it refuses, and names TARGET. If a move is interrupted, run it again.
    """
    if isinstance(source, str) == isinstance(target, str):
        raise InvalidInput(
            "a store is moved between a file and a database",
            where="target",
            remedy="give a file and a URL; `kalends admin backup` copies a file, and pg_dump a database",
        )
    file, url = (target, source) if isinstance(source, str) else (source, target)
    assert isinstance(file, Path)
    address = address_of(str(url))
    with server_parts():
        from kalends.servers.store_moves import move_store as moved_by

    with LiveLine(silent=settings.json) as line:
        moved = moved_by(
            file,
            address,
            to_database=isinstance(target, str),
            tell=lambda step, table, rows: line.show(step, f" {table}: {rows:,} rows"),
        )
    places = (str(file), address.shown)
    if not isinstance(target, str):
        places = places[::-1]
    following = _following_steps(moved, file, places[1], to_database=isinstance(target, str))
    report = {
        "from": places[0],
        "to": places[1],
        "kind": moved.kind,
        "name": moved.owner,
        "rows": moved.rows,
        "next": following,
    }
    output.answer(settings, "moved_store", report, lambda: [_summary(moved, *places), *following])


def _summary(moved: Moved, source: str, target: str) -> str:
    what = f"moved the store of the {moved.kind} {moved.owner} from {source} to {target}"
    if moved.rows is None:
        return f"{what}: the rest of an interrupted move"
    return f"{what}: {sum(moved.rows.values()):,} rows in {len(moved.rows)} tables are the same"


def _following_steps(moved: Moved, file: Path, target: str, *, to_database: bool) -> list[str]:
    """Return what the operator has to do before the server starts; files of a host are not moved."""
    steps = [f"next: name {target} as `store`"]
    folder = file.absolute().parent
    if to_database:
        steps.append(f'next: set folder = "{folder}", where the audit log and other files stay')
    # With a database, files of this host are called as those of this file would be.
    usual = file.with_name(f"{moved.owner}.sqlite").absolute()
    old, new = (file.absolute(), usual) if to_database else (usual, file.absolute())
    if old != new:
        renamed = {runs_path(old): runs_path(new)}
        for jobs in sorted(folder.glob(f"{glob.escape(old.stem)}.*.jobs")):
            renamed[jobs] = folder / (new.stem + jobs.name.removeprefix(old.stem))
        steps += [
            f"next: rename {one} to {other}" for one, other in renamed.items() if one.exists()
        ]
    return steps
