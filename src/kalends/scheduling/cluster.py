"""The running jobs and free nodes of a machine, counted, as policies see them.

Policies start jobs through it. It keeps the running jobs sorted by their expected ends, and notes what
changed, for the queue service or the simulator that carries it out.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import ClassVar

from kalends.core.errors import InvalidInput, NotFound
from kalends.core.excerpts import excerpt
from kalends.machines.partitions import Partition, Planned
from kalends.scheduling.job import HeldSize, Job, stretched
from kalends.scheduling.leeway import Leeway, ShadowLeeway, leeway_in
from kalends.scheduling.node_numbers import NodeNumbers, without
from kalends.scheduling.profile import NEVER, Profile
from kalends.scheduling.promise import Promise, promise_by_ends
from kalends.scheduling.reservations import (
    Guests,
    Reservation,
    Reservations,
    check_arrival,
    no_room,
)


class Cluster:
    """A cluster of interchangeable nodes.

    `free` counts nodes that no job has. It is below 0 while nodes that are to leave service are still in
    use.

    In a simulation every end is reported in its own second, though other events may come before it in that
    second. So a job whose requested time is over counts as ended before its end is reported, and within that
    second `free` can be below 0, too. On a `live` cluster nodes are free only when their release is reported:
    a job whose requested time is over keeps them, and is expected to end a little later each time
    (`expect_overdue`). There jobs also get nodes by number (`Job.partition`).
    """

    counts: ClassVar[bool] = True
    """Whether a job needs only enough free nodes: not if nodes have names or belong to parts."""

    def __init__(
        self, nodes: int, reservations: Iterable[Reservation] = (), *, live: bool = False
    ) -> None:
        if nodes < 1:
            raise InvalidInput(f"{nodes} nodes", where="nodes", remedy="give 1 or more")
        self.nodes = nodes
        self.live = live
        self.driven = False
        """Whether a scheduler drives it."""
        self.free = nodes
        self.ends: list[tuple[int, int, Job]] = []
        """``(until_s, order, job)`` of the running jobs, sorted."""
        self.overdue: dict[int, int] = {}
        """The limits of the running jobs that have passed them, by order; live only."""
        self.touched: list[Job] = []
        """Jobs started, stopped or resized and not collected yet, in that order."""
        self.begun = 0
        """Number of jobs started, less those stopped to wait again."""
        self.made = tuple(reservations)
        """The advance reservations as they were made."""
        self.guests = Guests()
        self.reservations = Reservations(nodes, self.made)
        """The nodes that they keep free: fewer than reserved if jobs run on their nodes."""
        self.reserved = bool(self.reservations)
        self.out_of_service = 0
        """Nodes that are drained or failed, or will be when their jobs have ended."""
        self.revision = 0
        """Number of changes of nodes in service, of reservations and of expected ends: an older plan may be
        impossible, or may miss possibilities."""
        self.out_nodes: frozenset[int] = frozenset()
        """Their numbers."""
        self.back: dict[int, int] = {}
        """When those of them are back that have an end; empty if nodes have names or belong to parts."""
        self._numbers = self._node_numbers() if live else None
        self._kept_plan: Profile | None = None
        """The last result of `plan`, with later starts and ends; None: to be computed again."""

    def could_ever_fit(self, job: Job) -> bool:
        """Return whether the job could run on the empty cluster."""
        return job.nodes <= self.nodes

    def fits_in_service(self, job: Job) -> bool:
        """Return whether the job could run with the nodes in service, once all running jobs have ended."""
        return job.nodes <= self.nodes - self.out_of_service + len(self.back)

    def width(self, job: Job) -> int:
        """Return the nodes that the job would take: more than it asks for if only whole units are given."""
        return job.nodes

    def free_at(self, now: int) -> int:
        """Free nodes; jobs whose requested time is over by `now` do not count as running."""
        free = self.free
        for until_s, _, job in self.ends:
            if until_s > now:
                break
            free += job.granted
        return free

    def settled(self, now: int) -> bool:
        """Return whether time alone frees nothing, so that refusals stay until a job ends.

        False if a running job's requested time is over, or if a reservation may have ended.
        """
        return not self.reserved and (not self.ends or self.ends[0][0] > now)

    def can_start(self, job: Job, now: int) -> bool:
        """Return whether the job fits now, and for all of its requested time."""
        if self.reserved:
            return self._present_plan(now).fits(job.nodes, now, now + max(job.requested_s, 1))
        return job.nodes <= self.free or job.nodes <= self.free_at(now)

    def start(self, job: Job, now: int) -> bool:
        """Start a waiting job if it fits; return whether it did."""
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
        if self._kept_plan is not None:
            # Past time is no longer examined.
            self._kept_plan.take(-job.granted, self._kept_plan.times[0], job.until_s)
        job.granted = 0
        job.stopping = False
        self.overdue.pop(job.order, None)
        if self._numbers is not None:
            self._let_go(job)
        if self.guests.pop(job.order, None) is not None:
            self._renew_reservations()

    def can_stop(self, job: Job) -> bool:
        """Return whether a running job may be stopped for another.

        Not if it has nodes of a reservation, nor on a live cluster while another request to it is open.
        """
        if job.stays or job.order in self.guests:
            return False
        return not (self.live and (job.target or job.stopping or job in self.touched))

    def stop(self, job: Job, now: int) -> bool:
        """Preempt a running job; return whether it waits again, for the rest of its requested time.

        On a live cluster it is only asked to stop, and keeps its nodes until it stands still (`stopped`).
        """
        if self.live:
            job.stopping = True
        else:
            self.stopped(job, now)
        self.touched.append(job)
        return not self.live

    def stopped(self, job: Job, now: int) -> None:
        """Make a running job wait again, for the rest of its requested time; live, it has some left."""
        limit_s = self.overdue.get(job.order, job.until_s)
        self.end(job)
        self.begun -= 1
        job.asked_s = job.asked_s or job.requested_s
        job.requested_s = max(limit_s - now, int(self.live))
        job.until_s = -1
        job.target = 0
        job.partition = None
        if self.live:
            self._revise()

    def goes_on(self, job: Job) -> None:
        """Let a job run on that could not be stopped; it is not asked again."""
        job.stopping, job.stays = False, True

    def drain(self, nodes: Collection[int], back_s: int = 0) -> None:
        """Put nodes, numbered from 0, out of service: idle ones at once, others when they are given back.

        Plans count on them again from `back_s` on, when they are to be resumed; 0: that is not known.
        Running jobs continue: end them if their nodes have failed. Wake the scheduler after this, and after
        `resume`. Raises `InvalidInput`, and nothing is changed, for nodes that do not exist.
        """
        self._check_numbers(nodes)
        self.out_nodes |= frozenset(nodes)
        if self.counts and back_s:
            self.back.update(dict.fromkeys(nodes, back_s))
        else:
            self._forget_ends(nodes)
        self._count_out_of_service(len(self.out_nodes))

    def resume(self, nodes: Collection[int]) -> None:
        """Put nodes back into service."""
        self._check_numbers(nodes)
        self.out_nodes -= frozenset(nodes)
        self._forget_ends(nodes)
        self._count_out_of_service(len(self.out_nodes))

    def _forget_ends(self, nodes: Collection[int]) -> None:
        for node in nodes:
            self.back.pop(node, None)

    def expect_overdue(self, now: int) -> list[tuple[Job, int]]:
        """Expect every running job whose time is over to end a little later: 1 s, 2 s, 4 s beyond its limit.

        Afterwards all expected ends are later than now, so that no plan counts on nodes that are in use.
        Returns these jobs with their former expected ends.
        """
        ends = self.ends
        moved: list[tuple[Job, int]] = []
        while ends and ends[0][0] <= now:
            job = ends[0][2]
            moved.append((job, job.until_s))
            limit_s = self.overdue.setdefault(job.order, job.until_s)
            self._expect(job, limit_s + (1 << (now - limit_s).bit_length()))
        return moved

    def expect_as_before(self, moved: Iterable[tuple[Job, int]]) -> None:
        """Take back the last `expect_overdue`."""
        for job, until_s in moved:
            self._expect(job, until_s)
            if self.overdue[job.order] == until_s:
                del self.overdue[job.order]
            self.revision -= 2

    def start_in(self, name: str, job: Job, now: int) -> bool:
        """Start a job on free nodes of the reservation `name`, until that ends; return whether it did."""
        made = next((each for each in self.made if each.name == name), None)
        taken = sum(guest.granted for guest in self.guests.of(name))
        if made is None or job.nodes > min(self.free, made.nodes - taken):
            return False
        job.requested_s = made.end_s - now
        self._begin(job, job.nodes, now)
        self.guests.admit(name, job)
        self._renew_reservations()
        return True

    def reserve(
        self,
        wanted: Reservation,
        now: int,
        guests: Collection[Job] = (),
        planned: Sequence[Planned] = (),
    ) -> None:
        """Add an advance reservation, or change the one of its name; ended ones are removed.

        The running jobs `guests` have nodes of it from now on, and until it ends. If nodes are named, one
        that is changed keeps its nodes if it can, with `guests` it gets theirs and others in addition, and it
        gets none that waiting jobs have `planned`, if there are others. Raises `InvalidInput` without a name
        or for a time that has passed, and `Conflict` if the other running jobs, with all their time, other
        reservations and nodes out of service leave it no room; then nothing has changed.
        """
        found = self.check_room(wanted, now, guests, planned)
        self._admit(wanted, guests)
        self._keep_free(wanted, found, now)

    def check_room(
        self,
        wanted: Reservation,
        now: int,
        guests: Collection[Job] = (),
        planned: Sequence[Planned] = (),
        *,
        sparing: bool = False,
    ) -> Partition | None:
        """Raise the errors of `reserve`; return the nodes that it would get, if they are named.

        With `sparing`, also raise if it would have to take nodes that waiting jobs have `planned` by name.
        """
        check_arrival(wanted, now)
        others = self._made_but(wanted.name, now)
        plan = self._plan_beside(self.guests.left_of(others), now, without=guests)
        begin_s = max(wanted.start_s, now)
        if not plan.fits(wanted.nodes, begin_s, wanted.end_s):
            fits = wanted.nodes <= plan.free[-1]
            length_s = wanted.end_s - begin_s
            raise no_room(wanted, plan.earliest(wanted.nodes, length_s, begin_s) if fits else None)
        return None

    def unreserve(self, name: str, now: int) -> None:
        """Remove an advance reservation. Raises `NotFound` without a current or later one of this name.

        Its guests are expected to end at once: the caller must end them.
        """
        if all(each.name != name or each.end_s <= now for each in self.made):
            raise NotFound(
                f"no reservation {excerpt(name)!r}",
                where="reservation",
                remedy="see what is reserved",
            )
        for job in self.guests.turn_out(name):
            self._expect(job, now + 1)
        self._reserve_all(self._made_but(name, now))

    def undo(self, job: Job) -> None:
        """Undo the last action, which must be the first start of `job`."""
        self.end(job)
        self.begun -= 1
        job.start_s = job.until_s = -1
        job.partition = None
        assert self.touched.pop() is job, f"job {job.id} was not the last to be started"

    def fits_without(self, job: Job, now: int, gone: Collection[Job]) -> bool:
        """Return whether the job would fit now if the running jobs `gone` did not run. Changes nothing."""
        present = self.free, self.ends, self._kept_plan
        self.free += sum(each.granted for each in gone)
        self.ends, self._kept_plan = [each for each in self.ends if each[2] not in gone], None
        try:
            return self.can_start(job, now)
        finally:
            self.free, self.ends, self._kept_plan = present

    def room(self, now: int) -> int:
        """Return the most nodes that a job could get now: free and not reserved."""
        if self.reserved:
            return self._present_plan(now).free[0]
        ends = self.ends
        return self.free if not ends or ends[0][0] > now else self.free_at(now)

    def leeway(self, now: int) -> Leeway:
        """Return a leeway that excludes only jobs that cannot start; exact if nodes are only counted."""
        if self.reserved and self.counts:
            return leeway_in(self._present_plan(now))
        return ShadowLeeway(self.room(now))

    def resize(self, job: Job, nodes: int, now: int) -> bool:
        """Ask a running malleable job to change to another of its sizes; return whether it was asked.

        It changes when it next can, and `resized` is called then. Nodes that it gains are kept for it
        from now on; nodes that it gives up are free after the change. A job makes one change at a time,
        and none in the pass that started it.
        """
        if not self.can_resize(job, nodes, now):
            return False
        assert job.molds is not None
        limit_s = self.overdue.get(job.order, job.until_s)
        job.before = HeldSize(job.granted, job.partition, limit_s, now)
        more = nodes - job.granted
        if more > 0:
            self.free -= more
            job.granted = nodes
            if self._numbers is not None:
                assert job.partition is not None
                job.partition = self._numbers.resize(job.partition, nodes)
        job.target = nodes
        # It may begin to change in the second in which it would have ended.
        self._expect(job, job.until_s + job.molds.reconfiguration_s + 1)
        self.touched.append(job)
        return True

    def can_resize(self, job: Job, nodes: int, now: int) -> bool:
        """Return whether `resize` would ask: never if a job has a place, which stays until it has ended."""
        molds = job.molds
        if not self.counts or molds is None or not molds.malleable or nodes not in molds.sizes:
            return False
        if job.target or nodes == job.granted or job.until_s <= now or job in self.touched:
            return False
        if job.stopping:
            return False
        if nodes - job.granted > self.free:
            return False
        return not self.reserved or self._leaves_change(job, nodes, now)

    def resized(self, job: Job, until_s: int) -> None:
        """Apply a job's requested change; the job will end by `until_s`."""
        self.free += job.granted - job.target
        job.nodes = job.granted = job.target
        job.target = 0
        if self._numbers is not None:
            assert job.partition is not None
            job.partition = self._numbers.resize(job.partition, job.nodes)
        self.overdue.pop(job.order, None)
        self._expect(job, until_s)

    def kept(self, job: Job) -> None:
        """Restore the nodes of a job that did not make its requested change."""
        before = job.before
        assert before is not None
        self.free += job.granted - before.nodes
        job.granted = before.nodes
        job.target = 0
        if self._numbers is not None:
            assert job.partition is not None
            assert before.partition is not None
            self._numbers.give_back(without(job.partition, before.partition))
            job.partition = before.partition
        self.overdue.pop(job.order, None)
        self._expect(job, before.until_s)

    def promise(self, job: Job, now: int) -> Promise:
        """Return the latest start of a job that cannot start now, if nothing else is started."""
        if not self.fits_in_service(job):
            return Promise(NEVER, self.leeway(now))
        if not self.reserved:
            return promise_by_ends(job.nodes, self.free, self.ends, now)
        plan = self._present_plan(now)
        shadow_s = plan.earliest(job.nodes, job.requested_s, now)
        kept = (shadow_s, shadow_s + job.requested_s, job.nodes)
        return Promise(shadow_s, leeway_in(plan, kept))

    def plan(self, now: int, planned: Iterable[tuple[int, int, int]] = ()) -> Profile:
        """Return the free nodes from `now` on, if running jobs take their requested time and only the
        `planned` jobs start: ``(start, end, nodes)``.

        Nodes are counted: if they have names or belong to parts, this number need not suffice.
        """
        return self._plan_beside(self.reservations, now, planned)

    def next_change(self, now: int) -> int | None:
        """Return when jobs may start without a submission or an end; None: never."""
        return self.reservations.next_change(now) if self.reserved else None

    def _present_plan(self, now: int) -> Profile:
        """Return the same as `plan`, kept from one event to the next: do not change it."""
        if self._kept_plan is None:
            self._kept_plan = self.plan(now)
        else:
            self._kept_plan.forget_before(now)
        return self._kept_plan

    def _plan_beside(
        self,
        reservations: Iterable[Reservation],
        now: int,
        planned: Iterable[tuple[int, int, int]] = (),
        without: Collection[Job] = (),
    ) -> Profile:
        busy = [(now, until_s, job.granted) for until_s, _, job in self.ends if job not in without]
        busy += [(each.start_s, each.end_s, each.nodes) for each in reservations]
        busy += planned
        busy += [(now, max(back_s, now + 1), count) for back_s, count in self._returns()]
        return Profile.of(now, self.nodes - self.out_of_service + len(self.back), busy)

    def _returns(self) -> list[tuple[int, int]]:
        """Return when how many nodes are back."""
        return sorted(Counter(self.back.values()).items())

    def foresee(self) -> None:
        """Become a simulation of the future: ends come when expected, nodes have no numbers."""
        self.live = self.driven = False
        self._numbers = None
        if self.back:
            # In a simulation nobody resumes them: they are kept free until then, like reserved nodes.
            returns, self.back = self._returns(), {}
            self._count_out_of_service(self.out_of_service - sum(count for _, count in returns))
            kept = [Reservation(0, back_s, count, f"back {back_s}") for back_s, count in returns]
            self._reserve_all([*self.made, *kept])

    def check(self, now: int) -> None:
        """Check the invariant of the kept plan: it equals a plan made now."""
        kept, made = self._present_plan(now), self.plan(now)
        for time_s in {*kept.times, *made.times}:
            assert kept.at(time_s) == made.at(time_s), f"the kept plan is wrong at {time_s}"

    def _check_numbers(self, nodes: Collection[int]) -> None:
        for node in nodes:
            if not 0 <= node < self.nodes:
                raise InvalidInput(
                    f"no such node {node}",
                    where="nodes",
                    remedy=f"they are 0 to {self.nodes - 1}",
                )

    def _revise(self) -> None:
        """Note that earlier plans may be impossible, or may miss possibilities."""
        self.revision += 1
        self._kept_plan = None

    def _count_out_of_service(self, nodes: int) -> None:
        self._revise()
        self.free += self.out_of_service - nodes
        self.out_of_service = nodes
        self.reserved = bool(self.reservations or self.back)
        if self._numbers is not None:
            self._numbers.serve_all_but(self.out_nodes)

    def _made_but(self, name: str, now: int) -> list[Reservation]:
        return [each for each in self.made if each.end_s > now and each.name != name]

    def _keep_free(self, wanted: Reservation, found: Partition | None, now: int) -> None:
        """Keep nodes free for a reservation, in place of the one of its name: those `found` if named."""
        self._reserve_all([*self._made_but(wanted.name, now), wanted])

    def _admit(self, reservation: Reservation, guests: Collection[Job]) -> None:
        self.guests.turn_out(reservation.name)
        for job in guests:
            self.guests.admit(reservation.name, job)
            self.overdue.pop(job.order, None)
            self._expect(job, reservation.end_s)

    def _reserve_all(self, made: Iterable[Reservation]) -> None:
        self.made = tuple(made)
        self.reservations = Reservations(self.nodes, self.guests.left_of(self.made))
        self.reserved = bool(self.reservations or self.back)
        self._revise()

    def _renew_reservations(self) -> None:
        """Keep free again the nodes that guests have left."""
        self._reserve_all(self.made)

    def _node_numbers(self) -> NodeNumbers | None:
        return NodeNumbers(self.nodes)

    def _let_go(self, job: Job) -> None:
        """Free the numbers of a job that has ended."""
        assert self._numbers is not None
        assert job.partition is not None
        self._numbers.give_back(job.partition)

    def _begin(self, job: Job, nodes: int, now: int) -> None:
        if self._numbers is not None:
            job.partition = self._numbers.take(nodes)
        self.free -= nodes
        self.begun += 1
        job.granted = nodes
        length_s = job.requested_s
        until_s = now + (length_s if job.stretch == 1 else stretched(length_s, job.stretch))
        job.until_s = until_s
        if self._kept_plan is not None:
            self._kept_plan.take(nodes, now, until_s)
        if job.start_s < 0:
            job.start_s = now
        insort(self.ends, (until_s, job.order, job))
        self.touched.append(job)

    def _expect(self, job: Job, until_s: int) -> None:
        """Change the expected end of a running job."""
        self._revise()
        del self.ends[bisect_left(self.ends, (job.until_s, job.order))]
        job.until_s = until_s
        insort(self.ends, (until_s, job.order, job))

    def _leaves_change(self, job: Job, nodes: int, now: int) -> bool:
        """Return whether all reservations keep their room if a running job changes, whenever it does."""
        molds = job.molds
        assert molds is not None
        # At most the whole job remains at the change, whatever happens before it; the 1 is for times
        # that are rounded up.
        longest_s = max(job.until_s - now, molds.requested_on(nodes)) + molds.reconfiguration_s + 1
        plan = self._present_plan(now)
        return plan.fits(nodes - job.granted, now, job.until_s) and plan.fits(
            max(nodes, job.granted), job.until_s, now + longest_s
        )
