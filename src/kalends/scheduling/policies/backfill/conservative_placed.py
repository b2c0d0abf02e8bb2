"""Conservative backfilling where places matter: each job is reserved a start and its place then.

A place is a partition on a machine with a topology, and in a grid the nodes of all components of the job.

The rules are those of `conservative`: reserve at submission; after every end move each waiting job, in
order of submission, to the earliest time that the others leave it, never to a later one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kalends.machines.partitions import Planned
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.grid import Grid
from kalends.scheduling.job import Job
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.policies.backfill.promises import StartTurns, put_in_order
from kalends.scheduling.profile import NEVER

Booked = tuple[int, Any]
"""A start, and the place from then on: as the plan of the cluster has it."""


class PlacedConservative:
    """Conservative backfilling with places. `promised` gives each waiting job's start.

    Enough free nodes need not make a place, so a place is reserved. Where nodes have names, a job gives it
    up only for an earlier start, unless a reservation or a late job takes it; when nodes leave service or
    come back, all promises are renewed, in order. In a grid they are also renewed after other changes. A job
    that needs nodes out of service holds nothing back.
    """

    def __init__(self, cluster: Grid | MappedCluster) -> None:
        self.cluster: Cluster = cluster
        self.placing = cluster
        self.mapped = cluster if isinstance(cluster, MappedCluster) else None
        self.wakes = self.mapped is not None or cluster.reserved
        self._plan = cluster.plan_of_places(0)
        """What running, waiting and reserved jobs take, from the last event on."""
        self._revision = cluster.revision
        """The revision of the plan."""
        self._out = cluster.out_nodes
        """The nodes out of service then."""
        self._booked: dict[Job, Booked | None] = {}
        """Reserved start and nodes of each waiting job, in order of submission; None while nodes that it
        needs are out of service.
        """
        self._freed_until = self._unfreed(0)
        """Latest end of a freed time since all were examined, or the time of that; `NEVER` in a grid, where
        other free nodes make another place.
        """
        self._turns = StartTurns()
        self._fresh: Job | None = None

    def submitted(self, job: Job, now: int) -> None:
        self._booked[job] = None
        self._fresh = job

    def ended(self, job: Job, now: int) -> None:
        place: Any = self.placing.place_of(job)
        if self.mapped is not None and not self.mapped.unreserved(place, now, job.until_s):
            # The job was late, and not all of its nodes are free now.
            self._revision = -1
        self._plan.forget_before(now)
        self._plan.give_back(place, now, job.until_s)
        self._freed_until = max(self._freed_until, job.until_s)

    def withdrawn(self, job: Job, now: int) -> None:
        booked = self._booked.pop(job)
        self._turns.forget(job)
        if booked is not None:
            self._plan.forget_before(now)
            self._give_back(job, booked)

    def returned(self, job: Job, now: int) -> None:
        put_in_order(self._booked, job, None)

    def schedule(self, now: int) -> None:
        fresh, self._fresh = self._fresh, None
        self._plan.forget_before(now)
        wake_s = self.wake_at(now)
        too_late = wake_s is not None and wake_s < now
        if self._revision != self.placing.revision or too_late:
            # Promises cannot be kept, or can be improved; or the scheduler learned of a time too late.
            self._revision, fresh = self.placing.revision, None
            self._plan = self.placing.plan_of_places(now)
            self._book_again(now, anew=too_late)
        if fresh is not None:
            self._reserve(fresh, now)
            if wake_s != now:
                self._start_due(now)
            return
        freed_until, self._freed_until = self._freed_until, self._unfreed(now)
        for job in list(self._booked):
            self._move(job, now, max(freed_until, self._freed_until))
        self._start_due(now)

    def waiting(self) -> Iterator[Job]:
        return iter(self._booked)

    def wake_at(self, now: int) -> int | None:
        return min((booked[0] for booked in self._booked.values() if booked), default=None)

    def promised(self, job: Job) -> int:
        """Return the start reserved for a waiting job; it only gets later when it must.

        `NEVER` while it needs nodes that are out of service. Raises `KeyError` of jobs that do not wait.
        """
        booked = self._booked[job]
        return booked[0] if booked else NEVER

    def places(self) -> Iterator[Planned]:
        """Yield the starts and nodes reserved for waiting jobs, if nodes have names."""
        for job, booked in self._booked.items():
            if booked is not None and self.mapped is not None:
                start_s, partition = booked
                end_s = start_s + job.requested_s
                yield Planned(job.order, job.nodes, start_s, end_s, job.shape, partition)

    def _book_again(self, now: int, *, anew: bool) -> None:
        """Keep promises for which earlier ones leave room; none in a grid, or if other nodes are in service.

        A promise to a later job does not block an earlier one.
        """
        before, self._booked = self._booked, dict.fromkeys(self._booked)
        out, self._out = self._out, self.placing.out_nodes
        if anew or out != self._out or self.mapped is None:
            return
        self._freed_until = NEVER
        for job, booked in before.items():
            if booked is not None:
                start_s, place = booked
                if self._plan.fits(place, start_s, self._plan.end_of(job, start_s, place)):
                    self._take(job, booked)
                    self._booked[job] = booked
                else:
                    self._reserve(job, now)

    def _reserve(self, job: Job, not_before: int) -> None:
        self._booked[job] = found = self._plan.earliest(job, not_before)
        if found is not None:
            self._take(job, found)
            self._turns.reserved(job)

    def _move(self, job: Job, now: int, freed_until: int) -> None:
        """Reserve an earlier start, if any; no time from `freed_until` on has become free."""
        booked = self._booked[job]
        if booked is None:
            self._reserve(job, now)
        elif freed_until > now:
            earlier = self._plan.earliest(job, now, min(booked[0], freed_until), booked)
            if earlier is not None:
                self._give_back(job, booked)
                self._take(job, earlier)
                self._booked[job] = earlier
                self._turns.reserved(job)

    def _start_due(self, now: int) -> None:
        due = {
            job: booked[1] for job, booked in self._booked.items() if booked and booked[0] == now
        }
        for job in self._turns.sort(due):
            started = self.placing.start_on(job, due[job], now)
            assert started, f"job {job.id} has its nodes reserved from now on"
            del self._booked[job]
            self._turns.forget(job)

    def _take(self, job: Job, booked: Booked) -> None:
        start_s, place = booked
        self._plan.take(place, start_s, self._plan.end_of(job, start_s, place))

    def _give_back(self, job: Job, booked: Booked) -> None:
        start_s, place = booked
        end_s = self._plan.end_of(job, start_s, place)
        self._plan.give_back(place, start_s, end_s)
        self._freed_until = max(self._freed_until, end_s)

    def _unfreed(self, now: int) -> int:
        return NEVER if self.mapped is None else now
