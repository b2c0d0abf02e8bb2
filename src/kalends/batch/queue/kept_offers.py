"""Offers whose nodes are kept idle for them, and of which nothing is decided for too long.

An offer that is not promised ends within seconds. One that is promised may not end before its broker has
decided, and that may be away, or never say so: the offer stays, and its nodes go to others.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kalends.batch.queue.job import BatchJob


@dataclass(slots=True)
class KeptOffers:
    """The offers of one queue that nodes are kept for."""

    _kept: dict[int, BatchJob] = field(default_factory=dict)

    def keep(self, job: BatchJob) -> None:
        """Nodes are kept for `job` from now on."""
        self._kept[job.number] = job

    def overdue(self, undecided_s: int, now: int) -> list[BatchJob]:
        """Return those that nodes have been kept for so long; 0: none, however long."""
        return [each for each in self._waiting() if 0 < undecided_s <= now - each.since_s]

    def next_due_s(self, undecided_s: int) -> int | None:
        """Return when the next is overdue; None: never."""
        since_s = min((each.since_s for each in self._waiting()), default=0)
        return since_s + undecided_s if since_s and undecided_s else None

    def _waiting(self) -> list[BatchJob]:
        self._kept = {number: job for number, job in self._kept.items() if job.phase == "kept"}
        return list(self._kept.values())
