"""Batches of a register on PostgreSQL: what they are about is locked, decided, and stored."""

from __future__ import annotations

from collections.abc import Sequence

from kalends.broker.coordination.record.decision_record import Begin, Note
from kalends.broker.register.decisions.register_decisions import decide
from kalends.broker.register.postgres.locks import BatchLocks, Surprises
from kalends.broker.register.postgres.row_writes import changes
from kalends.broker.register.writes import Result, Write
from kalends.stores.postgres.batches import DecidedBatch, Rows
from kalends.stores.postgres.fence import OwnerMark
from kalends.stores.postgres.session import Statement


class RegisterBatches:
    """See `kalends.stores.postgres.batches.BatchedStore`. `replica` is the name of the one that writes."""

    def __init__(self, replica: str) -> None:
        self._replica = replica
        self._known = Surprises(set(), {}, set())
        self._locks = BatchLocks((), self._known)

    def mark(self, operations: Sequence[Write]) -> OwnerMark:
        """Lives and clocks have tables of their own."""
        return OwnerMark()

    def lock(self, operations: Sequence[Write]) -> list[Statement]:
        self._known.scripted.update(
            each.record.rid if isinstance(each, Begin) else each.rid
            for each in operations
            if isinstance(each, Begin | Note) and each.source
        )
        self._locks = BatchLocks(operations, self._known)
        return self._locks.statements

    def decide(self, rows: Rows, operations: Sequence[Write]) -> DecidedBatch[Result]:
        locked = self._locks.read(rows)
        results = [decide(locked, each) for each in operations]
        self._known.missing.clear()
        self._known.guards.clear()
        self._known.scripted.difference_update(
            rid for rid in locked.stored if not locked.uses_of(rid)
        )
        return DecidedBatch([*changes(locked, operations, self._replica)], lambda written: results)
