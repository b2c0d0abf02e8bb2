"""The running jobs and free nodes of a machine, counted, as policies see them.

Policies start jobs through it. It keeps the running jobs sorted by the end of their requested times,
and notes what changed, for the queue service or the simulator that carries it out.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable
from typing import ClassVar, Final

import msgspec

from kalends.core.errors import InvalidInput
from kalends.scheduling.job import Job
from kalends.scheduling.profile import Profile
from kalends.scheduling.reservations import Reservation, Reservations

NEVER: Final = 1 << 62
"""Later than any time."""


class Promise(msgspec.Struct):
    """The latest start of a waiting job without delays, and the jobs that may go before it.

    The *shadow time* and the *extra nodes* of EASY (Lifka 1995; Mu'alem and Feitelson 2001). Subclasses
    may allow less: never a job that lasts beyond `shadow_s` and takes more than `extra` nodes.
    """

    shadow_s: int
    extra: int

    def allows(self, job: Job, now: int) -> bool:
        """Return whether `job`, started now, leaves the promise standing."""
        return now + job.requested_s <= self.shadow_s or job.nodes <= self.extra

    def started(self, job: Job, now: int) -> None:
        """Take note that `job` was started now."""
        if now + job.requested_s > self.shadow_s:
            self.extra -= job.nodes


class ReservedPromise(Promise):
    """A promise among advance reservations: jobs before it must leave room for it in the whole plan."""

    plan: Profile

    def allows(self, job: Job, now: int) -> bool:
        return self.plan.fits(job.nodes, now, now + job.requested_s)

    def started(self, job: Job, now: int) -> None:
        self.plan.take(job.nodes, now, now + job.requested_s)


class Cluster:
    """A cluster of interchangeable nodes.

    `free` counts nodes that no job has. It can be below 0 within one second: a job whose requested time
    is over counts as gone (`free_at`) before its end is told. And it is below 0 while nodes that are to
    leave service are still in use.
    """

    counts: ClassVar[bool] = True
    """Whether enough free nodes are all that a job needs: not so where they have names or belong to parts."""

    def __init__(self, nodes: int, reservations: Iterable[Reservation] = ()) -> None:
        if nodes < 1:
            raise InvalidInput(f"{nodes} nodes", where="nodes", remedy="give 1 or more")
        self.nodes = nodes
        self.free = nodes
        self.ends: list[tuple[int, int, Job]] = []
        """``(until_s, order, job)`` of the running jobs, sorted."""
        self.touched: list[Job] = []
        """Jobs started, stopped or resized and not collected yet, in that order."""
        self.begun = 0
        """Number of jobs started, less those stopped to wait again."""
        self.reservations = Reservations(nodes, reservations)
        self.reserved = bool(self.reservations)
        self.out_of_service = 0
        """Nodes that are drained or failed, or will be when their jobs have ended."""
        self.services = 0
        """Number of changes of nodes in service; earlier plans are void after one."""
        self._out_nodes: frozenset[int] = frozenset()

    def could_ever_fit(self, job: Job) -> bool:
        """Return whether the job could run on the empty cluster."""
        return job.nodes <= self.nodes

    def fits_in_service(self, job: Job) -> bool:
        """Return whether the job could run with the nodes in service, once all running jobs have ended."""
        return job.nodes <= self.nodes - self.out_of_service

    def width(self, job: Job) -> int:
        """Return the nodes that the job would take: more than it asks for if only whole units are given."""
        return job.nodes

    def free_at(self, now: int) -> int:
        """Free nodes, jobs whose requested time is over by `now` not counted as running."""
        free = self.free
        for until_s, _, job in self.ends:
            if until_s > now:
                break
            free += job.granted
        return free

    def settled(self, now: int) -> bool:
        """Return whether time alone frees nothing: what was refused is refused still, unless a job has ended.

        Not so where a running job's requested time is over, or where a reservation may have ended.
        """
        return not self.reserved and (not self.ends or self.ends[0][0] > now)

    def can_start(self, job: Job, now: int) -> bool:
        """Return whether the job fits now, and for all of its requested time."""
        free = self.free
        if job.nodes > free and job.nodes > self.free_at(now):
            return False
        return not self.reserved or self._leaves_room(job.nodes, now, now + job.requested_s)

    def start(self, job: Job, now: int) -> bool:
        """Start a waiting job if it fits; says whether it did."""
        nodes = job.nodes
        if nodes > self.free or self.reserved:
            # Most refusals end at the first test: nothing is overdue.
            ends = self.ends
            if (not ends or ends[0][0] > now) and nodes > self.free:
                return False
            if not self.can_start(job, now):
                return False
        self._begin(job, nodes, now)
        return True

    def end(self, job: Job) -> None:
        """End a running job, at whatever time, and free its nodes."""
        ends = self.ends
        at = bisect_left(ends, (job.until_s, job.order))
        assert ends[at][2] is job, f"job {job.id} does not run here"
        del ends[at]
        self.free += job.granted
        job.granted = 0

    def stop(self, job: Job, now: int) -> None:
        """Preempt a running job: it waits again, for the rest of its requested time."""
        self.end(job)
        self.begun -= 1
        job.asked_s = job.asked_s or job.requested_s
        job.requested_s = max(job.until_s - now, 0)
        job.until_s = -1
        job.target = 0
        self.touched.append(job)

    def withdraw(self, nodes: Collection[int]) -> None:
        """Put nodes, numbered from 0, out of service: idle ones at once, others when they are given back.

        What runs goes on: end it if its nodes have failed. Wake the scheduler after it, and after
        `restore`. Raises `InvalidInput`, and nothing is changed, for nodes that are not here.
        """
        self._check_numbers(nodes)
        self._out_nodes |= frozenset(nodes)
        self._count_out_of_service(len(self._out_nodes))

    def restore(self, nodes: Collection[int]) -> None:
        """Put nodes back into service."""
        self._check_numbers(nodes)
        self._out_nodes -= frozenset(nodes)
        self._count_out_of_service(len(self._out_nodes))

    def undo(self, job: Job) -> None:
        """Take back what was done last, the first start of `job`, as if it had never been."""
        self.end(job)
        self.begun -= 1
        job.start_s = job.until_s = -1
        job.partition = None
        assert self.touched.pop() is job, f"job {job.id} was not the last to be started"

    def stops_for(self, job: Job, now: int, candidates: Iterable[Job]) -> list[Job]:
        """Return the running `candidates` that must stop so that `job` fits now; none if all are not enough.

        They are taken in their order until the job fits; then those are spared, the last one first,
        without whom it fits as well. Changes nothing.
        """
        stopped: list[Job] = []
        for candidate in candidates:
            stopped.append(candidate)
            if self.fits_without(job, now, stopped):
                break
        else:
            return []
        for candidate in stopped[-2::-1]:
            others = [each for each in stopped if each is not candidate]
            if self.fits_without(job, now, others):
                stopped = others
        return stopped

    def fits_without(self, job: Job, now: int, gone: Collection[Job]) -> bool:
        """Return whether the job would fit now if the running jobs `gone` did not run. Changes nothing."""
        ends, free = self.ends, self.free
        self.ends = [each for each in ends if each[2] not in gone]
        self.free = free + sum(each.granted for each in gone)
        fits = self.can_start(job, now)
        self.ends, self.free = ends, free
        return fits

    def room(self, now: int) -> int:
        """Return the most nodes that a job could have now: free and not reserved."""
        ends = self.ends
        free = self.free if not ends or ends[0][0] > now else self.free_at(now)
        return free - self.reservations.nodes_at(now) if self.reserved else free

    def resize(self, job: Job, nodes: int, now: int) -> bool:
        """Ask a running malleable job to change to another of its sizes; return whether it was asked.

        It changes when it next can, and `resized` is called then. Nodes that it gains are kept for it
        from now on; nodes that it gives up are free from then on. A job makes one change at a time, and
        none in the pass that started it.
        """
        molds = job.molds
        if molds is None or not molds.malleable or nodes not in molds.sizes:
            return False
        if job.target or nodes == job.granted or job.until_s <= now or job in self.touched:
            return False
        more = nodes - job.granted
        if more > self.free or (self.reserved and not self._leaves_change(job, nodes, now)):
            return False
        if more > 0:
            self.free -= more
            job.granted = nodes
        job.target = nodes
        # It may begin to change in the very second in which it would have been over.
        self._expect(job, job.until_s + molds.reconfiguration_s + 1)
        self.touched.append(job)
        return True

    def resized(self, job: Job, until_s: int) -> None:
        """Apply the change that a job was asked for; it will end by `until_s`."""
        self.free += job.granted - job.target
        job.nodes = job.granted = job.target
        job.target = 0
        self._expect(job, until_s)

    def promise(self, job: Job, now: int) -> Promise:
        """Return the latest start of a job that cannot start now, if nothing else is started."""
        if job.nodes > self.nodes - self.out_of_service:
            return Promise(NEVER, NEVER)
        if self.reserved:
            plan = self.plan(now)
            shadow_s = plan.earliest(job.nodes, job.requested_s, now)
            plan.take(job.nodes, shadow_s, shadow_s + job.requested_s)
            # A job that lasts longer needs nodes that the head leaves free.
            return ReservedPromise(shadow_s, plan.at(shadow_s), plan)
        free, nodes, shadow_s = self.free, job.nodes, now
        later = iter(self.ends)
        if free < nodes:
            for until_s, _, running in later:
                free += running.granted
                if free >= nodes:
                    shadow_s = max(until_s, now)
                    break
        for until_s, _, running in later:
            if until_s > shadow_s:
                break
            free += running.granted
        return Promise(shadow_s, free - nodes)

    def plan(self, now: int, planned: Iterable[tuple[int, int, int]] = ()) -> Profile:
        """Free nodes from `now` on, if all that runs takes its requested time and nothing is started
        but what is `planned`: ``(start, end, nodes)``.

        It counts: where nodes have names or belong to parts, that many need not be enough.
        """
        busy = [(now, until_s, job.granted) for until_s, _, job in self.ends]
        busy += [(each.start_s, each.end_s, each.nodes) for each in self.reservations]
        busy += planned
        return Profile.of(now, self.nodes - self.out_of_service, busy)

    def next_change(self, now: int) -> int | None:
        """Return when jobs may start without a submission or an end; None: never."""
        return self.reservations.next_change(now) if self.reserved else None

    def _check_numbers(self, nodes: Collection[int]) -> None:
        for node in nodes:
            if not 0 <= node < self.nodes:
                raise InvalidInput(
                    f"no such node {node}",
                    where="nodes",
                    remedy=f"they are 0 to {self.nodes - 1}",
                )

    def _count_out_of_service(self, nodes: int) -> None:
        self.services += 1
        self.free += self.out_of_service - nodes
        self.out_of_service = nodes

    def _begin(self, job: Job, nodes: int, now: int) -> None:
        self.free -= nodes
        self.begun += 1
        job.granted = nodes
        job.until_s = until_s = now + job.requested_s
        if job.start_s < 0:
            job.start_s = now
        insort(self.ends, (until_s, job.order, job))
        self.touched.append(job)

    def _expect(self, job: Job, until_s: int) -> None:
        """Change the expected end of a running job."""
        del self.ends[bisect_left(self.ends, (job.until_s, job.order))]
        job.until_s = until_s
        insort(self.ends, (until_s, job.order, job))

    def _leaves_change(self, job: Job, nodes: int, now: int) -> bool:
        """Return whether all reservations keep their room if a running job changes, whenever it does."""
        molds = job.molds
        assert molds is not None
        # Whatever is done before the change, no more is left then than all of the job; the 1 is for times
        # that are rounded up.
        longest_s = max(job.until_s - now, molds.requested_on(nodes)) + molds.reconfiguration_s + 1
        more = nodes - job.granted
        if more > 0 and not self._leaves_room(more, now, job.until_s):
            return False
        return self._leaves_room(max(nodes, job.granted), job.until_s, now + longest_s)

    def _leaves_room(self, nodes: int, now: int, until_s: int) -> bool:
        """Return whether `nodes` more during ``[now, until_s)`` leave all reservations their room."""
        if nodes > self.free_at(now) - self.reservations.nodes_at(now):
            return False
        for time_s in self.reservations.starts_within(now, until_s):
            if nodes > self.free_at(time_s) - self.reservations.nodes_at(time_s):
                return False
        return True
