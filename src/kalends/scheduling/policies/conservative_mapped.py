"""Conservative backfilling on a machine with a topology: a start and a partition are reserved for each job.

The rules are those of `conservative`: reserve at submission; after every end move each waiting job, in
order of submission, to the earliest time that the others leave it, never to a later one.
"""

from __future__ import annotations

from collections.abc import Iterator

from kalends.machines.machine import Partition
from kalends.scheduling.cluster import NEVER, Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.mapped_plan import MappedPlan


class MappedConservative:
    """Nobody is ever delayed by anybody who came later. `promised` tells each waiting job's start.

    Enough free nodes need not make a partition, so the very nodes are reserved. A job gives them up for
    an earlier start only.
    """

    def __init__(self, cluster: MappedCluster) -> None:
        self.cluster: Cluster = cluster
        self.mapped = cluster
        self.wakes = True
        self._plan = cluster.plan_of_units(0)
        """What is taken by all that runs, waits and is reserved; from the last event on."""
        self._services = cluster.services
        """How often nodes had left service or come back when the plan was made."""
        self._booked: dict[Job, tuple[int, Partition] | None] = {}
        """The reserved start and nodes of each waiting job, in order of submission; None: nodes that it
        needs are out of service."""
        self._fresh: Job | None = None

    def submitted(self, job: Job, now: int) -> None:
        self._booked[job] = None
        self._fresh = job

    def ended(self, job: Job, now: int) -> None:
        assert job.partition is not None
        self._plan.forget_before(now)
        self._plan.give_back(job.partition, now, job.until_s)

    def withdrawn(self, job: Job, now: int) -> None:
        self._give_back(job, self._booked.pop(job), now)

    def schedule(self, now: int) -> None:
        fresh, self._fresh = self._fresh, None
        self._plan.forget_before(now)
        if self._services != self.mapped.services:
            # What was promised cannot be kept, or more can: all are promised anew, in their order.
            self._services, fresh = self.mapped.services, None
            self._plan = self.mapped.plan_of_units(now)
            self._booked = dict.fromkeys(self._booked)
        for job in list(self._booked) if fresh is None else [fresh]:
            booked = self._book(job, now)
            if booked and booked[0] == now:
                started = self.mapped.start_on(job, booked[1], now)
                assert started, f"job {job.id} was promised free nodes"
                del self._booked[job]

    def waiting(self) -> Iterator[Job]:
        return iter(self._booked)

    def wake_at(self, now: int) -> int | None:
        return min((booked[0] for booked in self._booked.values() if booked), default=None)

    def promised(self, job: Job) -> int:
        """The start reserved for a waiting job; it only gets later when nodes leave service.

        `NEVER` while it needs nodes that are out of service. Raises `KeyError` of jobs that do not wait.
        """
        booked = self._booked[job]
        return booked[0] if booked else NEVER

    def _book(self, job: Job, now: int) -> tuple[int, Partition] | None:
        """Reserve the earliest start; the partition that was reserved stays unless it gets earlier."""
        before = self._booked[job]
        self._give_back(job, before, now)
        if before is not None and before[0] >= now:
            found = self._plan.earliest(job, now, before[0]) or before
        else:
            found = self._plan.earliest(job, now)
        if found is not None:
            start_s, partition = found
            self._plan.take(partition, start_s, start_s + job.requested_s)
        self._booked[job] = found
        return found

    def _give_back(self, job: Job, booked: tuple[int, Partition] | None, now: int) -> None:
        if booked is not None:
            start_s, partition = booked
            self._plan.give_back(partition, max(start_s, now), start_s + job.requested_s)
