"""Maintenance of a store: copy it, check it, and accept a restored one.

`backup` and `doctor` work while a server runs, and on stores of sites and brokers alike.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path
from shlex import quote
from typing import Final

from kalends.core.clock import ASTRAY_MS
from kalends.core.errors import Conflict, KalendsError, StoreDamaged, Unavailable
from kalends.stores.moves.closures import OPEN, closed
from kalends.stores.sqlite import sqlite_file
from kalends.stores.sqlite.sqlite_file import StoreKind, make_private

RECOVERING: Final = "recovering"
"""In a store's `meta`: promises may be forgotten in it, so that nothing new is taken until it is compared."""

BEHIND_S_MAX: Final = 60
"""A clock that is behind by less is none of a store's business."""


def backup(store_path: Path, destination_path: Path, kinds: Iterable[StoreKind]) -> None:
    """Copy a store of one of these `kinds` to a new file: as of one moment, whole, durable, marked as a copy.

    The records of agents' runs beside it, which nothing rests on, are copied beside the new file, after it.

    A server refuses a copy until `reconcile` has accepted it, for what was promised after the moment
    of the copy is not in it. Raises `Conflict` when there is a file at `destination_path` already,
    `StoreDamaged` when the store is not one or the copy is not whole, and `Unavailable` when the disk
    does not take it; then nothing is left at `destination_path`.
    """
    kind_of(store_path, kinds)
    if destination_path.exists() or destination_path.is_symlink():
        raise Conflict(
            "a file of this name exists",
            where=str(destination_path),
            remedy="choose another name: a backup never overwrites a file",
        )
    fresh = destination_path.with_name(f"{destination_path.name}.{os.getpid()}.new")
    try:
        _copy(store_path, fresh)
        # A link, not a rename: it fails when somebody was faster.
        os.link(fresh, destination_path)
        _copy_runs(sqlite_file.runs_path(store_path), sqlite_file.runs_path(destination_path))
        sqlite_file.sync_directory(destination_path)
    except FileExistsError as error:
        raise Conflict("a file of this name exists", where=str(destination_path)) from error
    except (OSError, sqlite3.Error) as error:
        raise Unavailable(
            f"the store cannot be copied: {error}",
            where=str(destination_path),
            remedy="check that the directory exists, is writable and has room",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)


def doctor(store_path: Path, kinds: Iterable[StoreKind]) -> list[str]:
    """Return the faults of a store of one of these `kinds`, one a line; none if whole. Writes nothing."""
    try:
        kind = kind_of(store_path, kinds)
        sqlite_file.check_header(store_path, kind)
        with sqlite_file.reading(store_path) as connection:
            connection.execute("begin")  # One moment for all that follows.
            findings = sqlite_file.quick_check(connection)
            if not findings:
                findings = _examine_meta(store_path, connection) + kind.problems_of(connection)
    except KalendsError as error:
        return [str(error)]
    except sqlite3.Error as error:
        return [f"the store cannot be read to its end: {error}"]
    return findings


def reconcile(store_path: Path, kinds: Iterable[StoreKind]) -> int:
    """Accept a restored store of one of these `kinds`; returns its new epoch.

    The epoch goes above that of the side file, so that whoever knew the lost time sees a new one. Started
    on it, a site takes nothing new until it has been compared with the brokers. Raises `Conflict`
    while a server has the store open, and `StoreDamaged` for what is not a whole store.
    """
    kind = kind_of(store_path, kinds)
    sqlite_file.check_header(store_path, kind)
    with sqlite_file.alone(store_path):
        with sqlite_file.reading(store_path) as connection:
            if problems := sqlite_file.quick_check(connection):
                raise StoreDamaged(
                    f"the store is damaged: {problems[0]}",
                    where=str(store_path),
                    remedy="restore another backup",
                )
            if (closure := sqlite_file.read_closure(connection)) != OPEN:
                raise closed(str(store_path), closure)
        connection = sqlite3.connect(store_path, isolation_level=None)
        try:
            connection.execute("pragma synchronous = full")
            side = sqlite_file.read_side_file(store_path) or 0
            connection.execute("begin immediate")
            epoch = max(side, int(sqlite_file.read_meta(connection, "epoch"))) + 1
            sqlite_file.write_meta(connection, "epoch", epoch)
            connection.execute("delete from meta where name = 'copied'")
            sqlite_file.write_meta(connection, RECOVERING, 1)
            connection.execute("commit")
            connection.execute("pragma journal_mode = wal").fetchall()
        except sqlite3.Error as error:
            raise Unavailable(
                f"the store cannot be written to: {error}", where=str(store_path)
            ) from error
        finally:
            connection.close()
        sqlite_file.write_side_file(store_path, epoch)
    return epoch


def kind_of(path: Path, kinds: Iterable[StoreKind]) -> StoreKind:
    """Return the kind of the store at `path`; raises `StoreDamaged` for other files."""
    header, size = sqlite_file.read_header(path)
    if header.startswith(sqlite_file.MAGIC):
        application_id = int.from_bytes(header[68:72], "big")
        for kind in kinds:
            if kind.application_id == application_id:
                return kind
    raise StoreDamaged(
        "the file is not a store of kalends" if size else "the file is empty",
        where=str(path),
        remedy="name the file that the configuration calls `store`",
    )


def _copy(store_path: Path, fresh: Path) -> None:
    """Copy, mark, check and sync, all before the copy gets its name."""
    make_private(fresh)
    target = sqlite3.connect(fresh, isolation_level=None)
    try:
        with sqlite_file.reading(store_path) as source:
            source.backup(target)
        # One file: a copy is carried about without a log beside it.
        target.execute("pragma journal_mode = delete").fetchall()
        target.execute("pragma synchronous = full")
        sqlite_file.write_meta(target, "copied", 1)
        problems = sqlite_file.quick_check(target)
    finally:
        target.close()
    if problems:
        raise StoreDamaged(
            f"the store is damaged, and so is the copy: {problems[0]}",
            where=str(store_path),
            remedy=f"see kalends admin doctor {quote(str(store_path))}",
        )


def _copy_runs(source_path: Path, destination_path: Path) -> None:
    """Copy the records of runs, if there are any; raises as SQLite and the disk do."""
    if not source_path.exists():
        return
    make_private(destination_path)
    target = sqlite3.connect(destination_path, isolation_level=None)
    try:
        with sqlite_file.reading(source_path) as source:
            source.backup(target)
        target.execute("pragma journal_mode = delete").fetchall()
    finally:
        target.close()


def _examine_meta(path: Path, connection: sqlite3.Connection) -> list[str]:
    if (closure := sqlite_file.read_closure(connection)) != OPEN:
        return [str(closed(str(path), closure))]
    copied = sqlite_file.read_meta(connection, "copied")
    if copied and not sqlite_file.side_path(path).exists():
        return []  # A backup where it belongs: beside no server.
    epoch = sqlite_file.read_meta(connection, "epoch")
    problem = sqlite_file.epoch_problem(path, epoch, copied)
    restored = [f"{problem}; see {sqlite_file.RECONCILE} {path}"] if problem else []
    return restored + _examine_clock(connection)


def _examine_clock(connection: sqlite3.Connection) -> list[str]:
    """Whether this host's clock shows less than has passed for sure: for a site by what it has counted,
    for a broker by the logical times that it has given out.
    """
    counted_ms = int(sqlite_file.read_meta(connection, "sure_ms"))
    given_ms = int(sqlite_file.read_meta(connection, "clock")) - ASTRAY_MS
    behind_s = (max(counted_ms, given_ms) - time.time_ns() // 1_000_000) // 1000
    if behind_s <= BEHIND_S_MAX:
        return []
    return [
        f"the clock of this host is {behind_s} s behind the last time in the store: set it (NTP)"
    ]
