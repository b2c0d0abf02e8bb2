"""Facts of queues, and the marks of their journals, made from the rows of any store."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kalends.batch.journal.contract import ReservedTime
from kalends.batch.queue.facts import JournalEntry, decode_fact
from kalends.core.errors import StoreDamaged

MARKED_FACTS: Final = 100

EntryRow = tuple[int, int, bytes]
"""The number of a fact, its time, and the fact."""


def entry_of(machine: str, row: EntryRow) -> JournalEntry:
    """Return the fact of a queue in `row`; raises `StoreDamaged` for one that cannot be read."""
    number, now, fact = row
    try:
        return JournalEntry(number, now, decode_fact(fact))
    except msgspec.DecodeError as error:
        raise StoreDamaged(
            f"entry {number} of the queue cannot be read: {error}",
            where=machine,
            remedy="restore a backup of the site's store",
        ) from error


def reserved_time(row: Sequence[Any]) -> ReservedTime:
    """Return what is in a row whose columns are the fields of `ReservedTime`, in order."""
    return ReservedTime(**dict(zip(ReservedTime.__struct_fields__, row, strict=True)))


def mark_of(rows: Sequence[EntryRow], number: int) -> bytes:
    """Return the digest of a journal up to fact `number`, by which it is known; b"" if it does not go so far.

    `rows` are its last `MARKED_FACTS` up to there, the newest first: they suffice, for each submission has
    a key of its own, and time goes on.
    """
    if not rows or rows[0][0] != number:
        return b""
    return hashlib.blake2b(msgspec.msgpack.encode(rows), digest_size=16).digest()
