"""The policies of Gehring and Ramme 1996: a waiting room, and behind it a scheduler that packs levels.

A job waits in the waiting room (section 3.1) until the scheduler runs out of work and takes the next
block, which it packs behind all earlier plans (section 3.2). On a machine with a topology
the mapper verifies the plan (section 4.2), unless the scheduler is autonomous (section 4.1):
then it learns of an impossible partition when the job should start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from kalends.machines.partitions import Planned
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.levels import (
    FCFS_STAR,
    FFDH,
    FFDH_STAR,
    FFIH,
    FFIH_STAR,
    Packing,
    PackingRule,
)
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.plan import LevelPlan, PlannedJob
from kalends.scheduling.profile import NEVER
from kalends.scheduling.verification_loop import Verification
from kalends.scheduling.waiting_room import EXTRACTION_ORDERS, WaitingRoom


class LevelPolicy:
    """One packing rule behind a waiting room.

    `orders` are the extraction orders of its queues. The next block is extracted when all planned jobs
    start within `threshold_s`: with 0, when the scheduler is out of work. `verified` asks the mapper, if
    the cluster has one.

    While nothing is pending, a job that can be configured at once is: that is the FCFS mode of section
    3.2. Under a stacking rule, a job that fits into a gap of the plan goes there when it is submitted,
    past those in the waiting room, and delays no planned job.
    """

    rule: ClassVar[PackingRule]

    def __init__(
        self,
        cluster: Cluster,
        *,
        orders: Sequence[int] = EXTRACTION_ORDERS,
        threshold_s: int = 0,
        verified: bool = True,
    ) -> None:
        self.cluster = cluster
        self.wakes = True
        self.room = WaitingRoom(orders)
        self.plan = LevelPlan(cluster)
        self.threshold_s = threshold_s
        self.mapped = cluster if verified and isinstance(cluster, MappedCluster) else None
        self.entered: Callable[[Job, int], None] | None = None
        """Called with every job that leaves the waiting room or passes it by, and its planned start."""
        self.blocks: Counter[str] = Counter()
        """Number of blocks packed by each rule, by its name."""
        self.switches = 0
        """Number of blocks packed by another rule than the one before."""
        self._packed_by: PackingRule | None = None
        self._held: list[Job] = []
        """Jobs that cannot run before nodes come back into service; they wait outside the waiting room."""
        self._revision = cluster.revision
        self._fewer = False
        """Whether a job ended early or was withdrawn since the last pass."""

    def submitted(self, job: Job, now: int) -> None:
        void = self._revision != self.cluster.revision
        booking = None if void else self._at_once(job, now)
        if booking is None:
            self.room.put(job)
        else:
            self._enter([booking])

    def ended(self, job: Job, now: int) -> None:
        self._fewer = self._fewer or job.until_s > now

    def withdrawn(self, job: Job, now: int) -> None:
        if self.plan.withdraw(job):
            self._fewer = True
        elif job in self._held:
            self._held.remove(job)
        else:
            self.room.remove(job)

    def returned(self, job: Job, now: int) -> None:
        self.room.put_back(job)

    def schedule(self, now: int) -> None:
        if self._revision != self.cluster.revision:
            self._meet_change(now)
        if self._fewer:
            self._fewer = False
            self._close_gaps(now)
        self._start_due(now)
        while len(self.room) and self._wants_block(now):
            self._plan_block(self.room.extract(), now)
            self._start_due(now)

    def waiting(self) -> Iterator[Job]:
        jobs = [*self.room, *self._held, *(booking.job for booking in self.plan.bookings)]
        return iter(sorted(jobs, key=lambda job: job.order))

    def wake_at(self, now: int) -> int | None:
        start_s = self.plan.next_start_s(now)
        times = [self.cluster.next_change(now), start_s]
        if len(self.room) and start_s is not None:
            times.append(max(now + self.plan.preplanned_s(now) - self.threshold_s, now) + 1)
        return min((time_s for time_s in times if time_s is not None), default=None)

    def predictions(self, now: int) -> list[tuple[Job, int]]:
        """Return every waiting job with its start, if no more come and all take their requested time.

        Those inside the scheduler have their planned start. For the others the waiting room is frozen
        and virtually emptied, block by block, by counting nodes (section 4.1). Jobs that need nodes out of
        service are left out.
        """
        found = [(booking.job, max(booking.start_s, now)) for booking in self.plan.bookings]
        if len(self.room):
            packing = self.plan.packing(now, copied=True)
            room = self.room.copy()
            while len(room):
                block = [job for job in room.extract() if self._in_service(job)]
                rule = self.choose(block, packing, now)
                found += [
                    (booking.job, booking.start_s) for booking in self._pack(rule, block, packing)
                ]
        return found

    def predicted_start(self, job: Job, now: int) -> int | None:
        """Return when a waiting job will start, as things stand; None if it does not wait."""
        start_s = self.plan.start_of(job)
        if start_s is not None:
            return max(start_s, now)
        return next((start_s for each, start_s in self.predictions(now) if each is job), None)

    def promised(self, job: Job) -> int:
        """Return the start that is planned for a waiting job; `NEVER` while it is in the waiting room."""
        start_s = self.plan.start_of(job)
        return NEVER if start_s is None else start_s

    def places(self) -> Iterator[Planned]:
        """Yield the verified bookings of waiting jobs: reservations must not take their nodes."""
        for booking in self.plan.bookings:
            if booking.partition is not None:
                yield booking.wish()

    def choose(self, block: Sequence[Job], packing: Packing, now: int) -> PackingRule:
        """Return the rule that packs the next block."""
        return self.rule

    def _fills_gaps(self) -> bool:
        """Return whether a submitted job may bypass the waiting room, into a gap."""
        return self.rule.stacked

    def _wants_block(self, now: int) -> bool:
        return not self.plan.bookings or self.plan.preplanned_s(now) < self.threshold_s

    def _at_once(self, job: Job, now: int) -> PlannedJob | None:
        """Return a booking for a job that need not enter the waiting room."""
        plan = self.plan
        if not plan.bookings and not len(self.room) and self._fits_now(job, now):
            return PlannedJob(job, self.cluster.width(job), now, plan.level_now(now))
        if not self._fills_gaps() or not plan.levels or not self._in_service(job):
            return None
        packing = plan.packing(now)
        nodes = self.cluster.width(job)
        found = packing.gap(nodes, job.requested_s, now)
        if found is None:
            return None
        booking = PlannedJob(job, nodes, *found)
        if self.mapped is not None and not self._verification(packing).fit(booking):
            return None
        return booking

    def _fits_now(self, job: Job, now: int) -> bool:
        """Return whether it could be configured at once; an autonomous scheduler only counts."""
        if self.mapped is not None:
            return self.mapped.can_start(job, now)
        return self.cluster.plan(now).fits(self.cluster.width(job), now, now + job.requested_s)

    def _in_service(self, job: Job) -> bool:
        return not self.cluster.out_of_service or self.cluster.fits_in_service(job)

    def _meet_change(self, now: int) -> None:
        """Keep the plan if reservations, and nodes out of service, leave it possible; else make another."""
        if self._held or not self._is_possible(now):
            self._plan_anew(now)
        else:
            self._revision, self._fewer = self.cluster.revision, True

    def _is_possible(self, now: int) -> bool:
        """Return whether all planned jobs can run at their planned times and places."""
        profile = self.cluster.plan(now)
        for booking in self.plan.bookings:
            start_s = max(booking.start_s, now)
            if not profile.fits(booking.nodes, start_s, start_s + booking.length_s):
                return False
            profile.take(booking.nodes, start_s, start_s + booking.length_s)
        if self.mapped is None:
            return True
        wishes = [booking.wish() for booking in self.plan.bookings]
        fixed = self.mapped.fixed(self.mapped.made_rooms)
        return not self.mapped.machine.verify([*fixed, *wishes]).conflicts

    def _plan_anew(self, now: int) -> None:
        """Pack all planned jobs again, before others, because the plan may be impossible."""
        self._revision, self._fewer = self.cluster.revision, False
        block = [*self.plan.empty(), *self._held]
        self._held = []
        self._plan_block(block, now)

    def _plan_block(self, block: list[Job], now: int) -> None:
        """Let the next block of jobs enter; jobs that cannot run with the nodes in service are held."""
        self._held += [job for job in block if not self._in_service(job)]
        block = [job for job in block if self._in_service(job)]
        if not block:
            return
        self.plan.clear(now)
        packing = self.plan.packing(now)
        rule = self.choose(block, packing, now)
        self._count(rule)
        first = packing.first_for_block(rule)
        bookings = self._pack(rule, block, packing)
        if self.mapped is not None:
            self._verification(packing).settle(rule, bookings, first)
        self._enter(bookings)

    def _count(self, rule: PackingRule) -> None:
        self.blocks[rule.name] += 1
        self.switches += self._packed_by not in (None, rule)
        self._packed_by = rule

    def _enter(self, bookings: Sequence[PlannedJob]) -> None:
        self.plan.add(bookings)
        if self.entered is not None:
            for booking in bookings:
                self.entered(booking.job, booking.start_s)

    def _pack(self, rule: PackingRule, block: Sequence[Job], packing: Packing) -> list[PlannedJob]:
        first = packing.first_for_block(rule)
        bookings = []
        for index in rule.ordered([job.requested_s for job in block]):
            job = block[index]
            nodes = self.cluster.width(job)
            bookings.append(
                PlannedJob(job, nodes, *packing.place(rule, nodes, job.requested_s, first))
            )
        return bookings

    def _verification(self, packing: Packing) -> Verification:
        assert self.mapped is not None
        verified = [
            booking.wish() for booking in self.plan.bookings if booking.partition is not None
        ]
        return Verification(
            self.mapped.machine, self.mapped.fixed(self.mapped.made_rooms), verified, packing
        )

    def _start_due(self, now: int) -> None:
        """Start due jobs. Jobs that the cluster refuses move to the next scheduling point."""
        refused = []
        for booking in self.plan.due(now):
            if self._start(booking, now):
                self.plan.started(booking, now)
            else:
                refused.append(booking)
        for booking in refused:
            self.plan.shift(booking, now, alone=self.mapped is not None)

    def _start(self, booking: PlannedJob, now: int) -> bool:
        if self.mapped is not None and booking.partition is not None:
            return self.mapped.start_on(booking.job, booking.partition, now)
        return self.cluster.start(booking.job, now)

    def _close_gaps(self, now: int) -> None:
        """Move jobs to earlier starts, never later ones, because there is more room than planned."""
        if self._fills_gaps() and self.plan.bookings:
            packing = self.plan.packing(now)
            self.plan.compress(packing, now, self._accepts(packing))
        self.plan.pull_forward(now)

    def _accepts(self, packing: Packing) -> Callable[[PlannedJob], bool]:
        if self.mapped is None:
            return lambda booking: True
        return self._verification(packing).accepts


class Ffdh(LevelPolicy):
    """Longest first: First-Fit-Decreasing-Height."""

    rule = FFDH


class Ffih(LevelPolicy):
    """Shortest first: First-Fit-Increasing-Height."""

    rule = FFIH


class FfdhStar(LevelPolicy):
    """Longest first, and on top of one another inside a level."""

    rule = FFDH_STAR


class FfihStar(LevelPolicy):
    """Shortest first; jobs submitted later fill the gaps."""

    rule = FFIH_STAR


class FcfsStar(LevelPolicy):
    """FCFS*: in order of submission, each at the earliest time with room; a new level only when refused."""

    rule = FCFS_STAR
