"""The journals of a site's queues, as they lie in its store on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from kalends.batch.journal.contract import ReservedTime, StoredHost, StoredState
from kalends.batch.journal.postgres.job_tables import RESERVED_AFTER
from kalends.batch.journal.stored_entries import MARKED_FACTS, entry_of, mark_of, reserved_time
from kalends.batch.queue.facts import JournalEntry
from kalends.core.limits import TIME_S_MAX
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.readers import SlowReader

ENTRIES_A_MESSAGE: Final = 5_000


class PostgresJobJournal:
    """See `JobJournal`; one thread at a time reads with `reader`, and everything may raise `Unavailable`."""

    def __init__(self, reader: SlowReader) -> None:
        self._reader = reader

    def entries_after(self, machine: str, number: int) -> Iterator[JournalEntry]:
        while True:
            rows = self._reader.rows(
                "select number, now, fact from job_entry where machine = $1 and number > $2::bigint"
                " order by number limit $3::bigint",
                machine,
                number,
                ENTRIES_A_MESSAGE,
            )
            for row in rows:
                yield entry_of(machine, (row[0], row[1], row[2]))
            if len(rows) < ENTRIES_A_MESSAGE:
                return
            number = rows[-1][0]

    def mark(self, machine: str, number: int) -> bytes:
        rows = self._reader.rows(
            "select number, now, fact from job_entry where machine = $1 and number <= $2::bigint"
            " order by number desc limit $3::bigint",
            machine,
            number,
            MARKED_FACTS,
        )
        return mark_of([(row[0], row[1], row[2]) for row in rows], number)

    def state(self, machine: str) -> StoredState | None:
        rows = self._reader.rows(
            "select machine, made_by, journal, number, body from queue_state where machine = $1",
            machine,
        )
        return StoredState(*rows[0]) if rows else None

    def reserved_after(self, machine: str, time_s: int) -> Sequence[ReservedTime]:
        rows = self._reader.rows(RESERVED_AFTER, machine, time_s, TIME_S_MAX, "", TIME_S_MAX)
        return [reserved_time(row) for row in rows]

    def hosts(self) -> Sequence[StoredHost]:
        rows = self._reader.rows("select machine, host, name from machine_host order by machine")
        return [StoredHost(*row) for row in rows]


@contextmanager
def job_journal_in(address: Address) -> Iterator[PostgresJobJournal]:
    """Read the journals in the site's store at `address`, which its server may have open."""
    reader = SlowReader(address)
    try:
        yield PostgresJobJournal(reader)
    finally:
        reader.close()
