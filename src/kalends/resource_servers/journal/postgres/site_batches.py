"""The writes of a site in a batch: one message behind its fence, for nothing is decided on rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kalends.resource_servers.journal.contract import Prune, SiteOperation
from kalends.resource_servers.journal.postgres.booked_once import BookedOnce
from kalends.resource_servers.journal.postgres.booked_units import BookedUnits
from kalends.resource_servers.journal.postgres.site_tables import HANDLERS, JOURNAL, STAKE
from kalends.resource_servers.participation.claims.claim_sets import (
    StakeDropped,
    StakeForgotten,
    StakeStored,
    decode_stake,
)
from kalends.resource_servers.participation.effects import EntryStored
from kalends.stores.postgres.batches import DecidedBatch, Rows
from kalends.stores.postgres.fence import OwnerMark
from kalends.stores.postgres.session import Statement
from kalends.stores.postgres.tables import TableWrites

DROPPED: Final = "dropped"
CREDIT: Final = "credit"
"""The event of a row that stands for an entry of the ledger: the site's position counts it."""

PRUNE_ROWS_MAX: Final = 5_000
"""Journal rows looked at in one step of pruning: a few milliseconds."""

_FORGET: Final = "update stake set forgotten = true where rid = any($1::text[])"

# Rows go from the front only, and up to the first that is young: the clock may have been set back. The
# last fact stays, by which the next life knows its position.
_PRUNE: Final = """
with looked as (
    select seq, at_ms from journal where seq > $1::bigint order by seq limit $2::bigint
), old as (
    select min(seq) as first, max(seq) as last from looked where seq < coalesce(
        (select min(seq) from looked where at_ms >= $3::bigint), 9223372036854775807
    )
), gone as (
    delete from journal using old where journal.seq between old.first and old.last
        and journal.seq < (select max(seq) from journal) and not exists
        (select 1 from stake where stake.rid = journal.rid and stake.seq = journal.seq)
    returning 1
) select (select last from old), (select count(*) from gone)
"""


Guard = BookedOnce | BookedUnits
"""What the database guards, too."""


class SiteBatches:
    """See `BatchedStore`: `seq` is the number of the last fact, `wall_ms` gives the time of new ones."""

    def __init__(self, seq: int, wall_ms: Callable[[], int], guards: Sequence[Guard]) -> None:
        self._last_seq = seq
        self._guards = guards
        self._pruned_seq = 0
        self._wall_ms = wall_ms

    def mark(self, operations: Sequence[SiteOperation]) -> OwnerMark:
        return OwnerMark()

    def lock(self, operations: Sequence[SiteOperation]) -> Sequence[Statement]:
        return ()

    def decide(self, rows: Rows, operations: Sequence[SiteOperation]) -> DecidedBatch[int | None]:
        """The result of a `Prune` is how many rows went, or None when all rows were looked at."""
        at_ms, seq = self._wall_ms(), self._last_seq
        writes = TableWrites()
        standing: dict[str, StakeStored] = {}
        dropped: list[str] = []
        forgotten: list[str] = []
        prunes: list[int] = []
        last: list[Statement] = []
        for number, operation in enumerate(operations):
            if isinstance(operation, StakeStored):
                seq += 1
                rid = operation.rid
                writes.put(JOURNAL, (seq,), (at_ms, rid, operation.event, operation.body))
                writes.put(STAKE, (rid,), (seq, operation.ends_at))
                standing[rid] = operation
            elif carry := HANDLERS.get(type(operation)):
                carry(writes, operation)
                if isinstance(operation, EntryStored):
                    seq += 1
                    writes.put(JOURNAL, (seq,), (at_ms, operation.key, CREDIT, b""))
            elif isinstance(operation, StakeDropped):
                seq += 1
                writes.put(JOURNAL, (seq,), (at_ms, operation.rid, DROPPED, b""))
                writes.drop(STAKE, operation.rid)
                standing.pop(operation.rid, None)
                dropped.append(operation.rid)
            elif isinstance(operation, StakeForgotten):
                forgotten.append(operation.rid)
            else:
                assert isinstance(operation, Prune), operation
                prunes.append(number)
                given = (self._pruned_seq, PRUNE_ROWS_MAX, operation.before_ms)
                last.append(Statement(_PRUNE, given))
        if forgotten:
            writes.then(STAKE, Statement(_FORGET, (forgotten,)))

        def results(written: Rows) -> Sequence[int | None]:
            # Only now is it stored; a batch may be run again from the beginning.
            self._last_seq = seq
            found: list[int | None] = [None] * len(operations)
            for number, ((pruned, count),) in zip(
                prunes, written[len(written) - len(prunes) :], strict=True
            ):
                self._pruned_seq = pruned or 0
                found[number] = count if pruned else None
            return found

        guarding: list[Statement] = []
        if standing or dropped:
            stakes = [decode_stake(fact.body) for fact in standing.values()]
            guarding = [
                each for guard in self._guards for each in guard.statements(stakes, dropped)
            ]
        return DecidedBatch([*writes.statements(), *guarding, *last], results)
