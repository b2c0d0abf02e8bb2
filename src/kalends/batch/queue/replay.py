"""A queue from its journal, also where a policy has become another one since.

A policy of ours decides again when its facts are replayed, for what it keeps to itself, its plan above all,
is what it makes of them. After an update it may decide otherwise. Then its decisions are taken from the
journal up to the last time when the plan was made anew, or up to the end: there the policy of today begins,
with the jobs on their nodes, and those that wait in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from kalends.batch.queue import facts as f
from kalends.batch.queue.checkpoint import QueueState
from kalends.batch.queue.own_policy import Watch, unwatched
from kalends.batch.queue.queue import BatchQueue, QueueBroken
from kalends.core.errors import StoreDamaged
from kalends.scheduling.scheduler import Scheduler

ALL: Final = 1 << 62

Entries = Callable[[int], Iterable[f.JournalEntry]]
"""Returns the entries of a journal behind the one with this number, in order."""


def replayed(
    name: str,
    terms: f.Terms | None,
    now: int,
    entries: Entries,
    *,
    scheduler_type: type[Scheduler] = Scheduler,
    watch: Watch = unwatched,
    known: QueueState | None = None,
) -> BatchQueue:
    """Return the queue that its journal has made; see `BatchQueue`.

    Raises `StoreDamaged` where no policy can have made it.
    """
    make = partial(BatchQueue, name, terms, now, scheduler_type=scheduler_type, watch=watch)
    try:
        return make(entries=entries(known.number if known is not None else 0), known=known)
    except (StoreDamaged, QueueBroken) as error:
        first = error
    for prescribed_to in (_last_plan(entries(0)) - 1, ALL):
        try:
            if prescribed_to > 0:
                return make(entries=entries(0), prescribed_to=prescribed_to)
        except (StoreDamaged, QueueBroken):
            continue
    raise first


def _last_plan(entries: Iterable[f.JournalEntry]) -> int:
    """Return the number of the last entry that recomputed the plan; 0 for none."""
    return max((each.number for each in entries if isinstance(each.said, f.Replanned)), default=0)
