"""The journals of a site's queues, as they lie in its store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kalends.batch.journal.contract import JobJournal, ReservedTime, StoredHost, StoredState
from kalends.batch.journal.sqlite.job_tables import RESERVED
from kalends.batch.journal.stored_entries import MARKED_FACTS, entry_of, mark_of, reserved_time
from kalends.batch.queue.facts import JournalEntry
from kalends.stores.sqlite.sqlite_file import reading


class SqliteJobJournal:
    """See `JobJournal`; one thread at a time reads with `connection`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def entries_after(self, machine: str, number: int) -> Iterator[JournalEntry]:
        rows = self._connection.execute(
            "select number, now, fact from job_entry where machine = ? and number > ? order by number",
            (machine, number),
        )
        for row in rows:
            yield entry_of(machine, row)

    def mark(self, machine: str, number: int) -> bytes:
        rows = self._connection.execute(
            "select number, now, cast(fact as blob) from job_entry"
            " where machine = ? and number <= ? order by number desc limit ?",
            (machine, number, MARKED_FACTS),
        ).fetchall()
        return mark_of(rows, number)

    def state(self, machine: str) -> StoredState | None:
        row = self._connection.execute(
            "select machine, made_by, cast(journal as blob), number, cast(body as blob)"
            " from queue_state where machine = ?",
            (machine,),
        ).fetchone()
        return StoredState(*row) if row else None

    def reserved_after(self, machine: str, time_s: int) -> Sequence[ReservedTime]:
        rows = self._connection.execute(
            f"select {RESERVED} from reserved where machine = ? and ends_at > ?"
            " and ends_at > start order by ends_at, reservation, booked_start",
            (machine, time_s),
        )
        return list(map(reserved_time, rows))

    def hosts(self) -> Sequence[StoredHost]:
        rows = self._connection.execute(
            "select machine, host, name from machine_host order by machine"
        )
        return [StoredHost(*row) for row in rows]


@contextmanager
def job_journal_at(path: Path) -> Iterator[JobJournal]:
    """Read the journals in the site's store at `path`, which its server may have open."""
    with reading(path) as connection:
        yield SqliteJobJournal(connection)
