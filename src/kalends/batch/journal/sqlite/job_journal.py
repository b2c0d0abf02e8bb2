"""The journals of a site's queues, as they lie in its store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kalends.batch.journal.contract import JobJournal, ReservedTime, StoredHost, StoredState
from kalends.batch.journal.sqlite import job_tables
from kalends.batch.queue.facts import JournalEntry
from kalends.stores.sqlite.sqlite_file import reading


class SqliteJobJournal:
    """See `JobJournal`; one thread at a time reads with `connection`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def entries_after(self, machine: str, number: int) -> Iterator[JournalEntry]:
        return job_tables.entries_after(self._connection, machine, number)

    def mark(self, machine: str, number: int) -> bytes:
        return job_tables.journal_mark(self._connection, machine, number)

    def state(self, machine: str) -> StoredState | None:
        return job_tables.stored_state(self._connection, machine)

    def reserved_after(self, machine: str, time_s: int) -> Sequence[ReservedTime]:
        return job_tables.reserved_after(self._connection, machine, "", time_s)

    def hosts(self) -> Sequence[StoredHost]:
        return job_tables.stored_hosts(self._connection)


@contextmanager
def job_journal_at(path: Path) -> Iterator[JobJournal]:
    """Read the journals in the site's store at `path`, which its server may have open."""
    with reading(path) as connection:
        yield SqliteJobJournal(connection)
