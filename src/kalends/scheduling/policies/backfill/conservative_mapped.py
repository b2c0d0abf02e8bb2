"""Conservative backfilling on a machine with a topology: a start and a partition are reserved for each job.

The rules are those of `conservative`: reserve at submission; after every end move each waiting job, in
order of submission, to the earliest time that the others leave it, never to a later one.
"""

from __future__ import annotations

from collections.abc import Iterator

from kalends.machines.machine import Planned
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.mapped_plan import Booked
from kalends.scheduling.policies.backfill.promises import StartTurns, put_in_order
from kalends.scheduling.profile import NEVER


class MappedConservative:
    """Conservative backfilling with a mapper. `promised` gives each waiting job's start.

    Enough free nodes need not make a partition, so specific nodes are reserved. A job gives them up only
    for an earlier start, unless a reservation or a late job takes them. When nodes leave service or come
    back, all promises are renewed, in order; a job that needs nodes out of service holds nothing back.
    """

    def __init__(self, cluster: MappedCluster) -> None:
        self.cluster: Cluster = cluster
        self.mapped = cluster
        self.wakes = True
        self._plan = cluster.plan_of_units(0)
        """Units taken by running, waiting and reserved jobs, from the last event on."""
        self._revision = cluster.revision
        """The revision of the plan."""
        self._out = cluster.out_nodes
        """The nodes out of service then."""
        self._booked: dict[Job, Booked | None] = {}
        """Reserved start and nodes of each waiting job, in order of submission; None while nodes that it
        needs are out of service.
        """
        self._freed_until = 0
        """Latest end of a freed time since all were examined, or the time of that."""
        self._turns = StartTurns()
        self._fresh: Job | None = None

    def submitted(self, job: Job, now: int) -> None:
        self._booked[job] = None
        self._fresh = job

    def ended(self, job: Job, now: int) -> None:
        assert job.partition is not None
        if not self.mapped.unreserved(job.partition, now, job.until_s):
            # The job was late, and not all of its nodes are free now.
            self._revision = -1
        self._plan.forget_before(now)
        self._plan.give_back(job.partition, now, job.until_s)
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
        if self._revision != self.mapped.revision or too_late:
            # Promises cannot be kept, or can be improved; or the scheduler learned of a time too late.
            self._revision, fresh = self.mapped.revision, None
            self._plan = self.mapped.plan_of_units(now)
            self._book_again(now, anew=too_late)
        if fresh is not None:
            self._reserve(fresh, now)
            if wake_s != now:
                self._start_due(now)
            return
        freed_until, self._freed_until = self._freed_until, now
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
        """Yield the starts and nodes reserved for waiting jobs."""
        for job, booked in self._booked.items():
            if booked is not None:
                start_s, partition = booked
                end_s = start_s + job.requested_s
                yield Planned(job.order, job.nodes, start_s, end_s, job.shape, partition)

    def keeps_promises(self, job: Job, until_s: int, now: int) -> bool:
        """Return whether all promises stand if a running job ends by `until_s`."""
        assert job.partition is not None
        void = self._revision != self.mapped.revision
        return void or self._plan.fits(job.partition, job.until_s, until_s)

    def _book_again(self, now: int, *, anew: bool) -> None:
        """Keep the promises for which earlier ones leave room; none if other nodes are in service.

        A promise to a later job does not block an earlier one.
        """
        before, self._booked = self._booked, dict.fromkeys(self._booked)
        out, self._out = self._out, self.mapped.out_nodes
        if anew or out != self._out:
            return
        self._freed_until = NEVER
        for job, booked in before.items():
            if booked is not None:
                start_s, partition = booked
                if self._plan.fits(partition, start_s, start_s + job.requested_s):
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
            started = self.mapped.start_on(job, due[job], now)
            assert started, f"job {job.id} has its nodes reserved from now on"
            del self._booked[job]
            self._turns.forget(job)

    def _take(self, job: Job, booked: Booked) -> None:
        start_s, partition = booked
        self._plan.take(partition, start_s, start_s + job.requested_s)

    def _give_back(self, job: Job, booked: Booked) -> None:
        start_s, partition = booked
        end_s = start_s + job.requested_s
        self._plan.give_back(partition, start_s, end_s)
        self._freed_until = max(self._freed_until, end_s)
