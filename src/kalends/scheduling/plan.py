"""The schedule inside the scheduler: starts and levels of jobs (Gehring and Ramme 1996, Fig. 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count, takewhile
from typing import Final

from kalends.machines.partitions import Partition, Planned
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.levels import Level, Packing
from kalends.scheduling.mapped import MappedCluster

SHIFTED: Final = 0
"""Rank of a job that the machine has refused once: first in its level."""
PLANNED: Final = 1


class PlannedJob:
    """A job that is planned and does not run yet."""

    __slots__ = ("job", "level", "nodes", "partition", "rank", "start_s", "turn")

    def __init__(self, job: Job, nodes: int, start_s: int, level: Level) -> None:
        self.job = job
        self.nodes = nodes
        self.start_s = start_s
        self.level = level
        self.rank = PLANNED
        self.turn = 0
        """Order of entry: on one start and rank, earlier bookings are started and asked for first."""
        self.partition: Partition | None = None
        """Its partition, if the mapper has verified it."""

    @property
    def length_s(self) -> int:
        return self.job.requested_s

    @property
    def end_s(self) -> int:
        return self.start_s + self.job.requested_s

    def wish(self) -> Planned:
        """Return the request to the mapper, with the partition if that is settled."""
        job = self.job
        return Planned(job.order, job.nodes, self.start_s, self.end_s, job.shape, self.partition)


class LevelPlan:
    """The levels from now on and the bookings in them, over one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.levels: list[Level] = []
        self.bookings: list[PlannedJob] = []
        """Order by start, then shifted bookings first, then order of entry."""
        self._by_job: dict[Job, PlannedJob] = {}
        self._turns = count()

    def end_s(self, now: int) -> int:
        """Return the scheduling point behind all running and planned jobs."""
        return max(self._running_until_s(now), self.levels[-1].end_s if self.levels else now)

    def preplanned_s(self, now: int) -> int:
        """Return how far ahead of now starts are planned."""
        return self.bookings[-1].start_s - now if self.bookings else 0

    def packing(self, now: int, *, copied: bool = False) -> Packing:
        """Return the plan as levels over free nodes.

        `copied` levels may be packed without any effect here.
        """
        planned = [
            (max(each.start_s, now), max(each.start_s, now) + each.length_s, each.nodes)
            for each in self.bookings
        ]
        profile = self.cluster.plan(now, planned)
        levels = self.levels
        if copied:
            levels = [Level(level.start_s, level.end_s) for level in levels]
        return Packing(profile, levels, self.end_s(now))

    def clear(self, now: int) -> None:
        """Drop levels that have ended, and planned ones that have become empty."""
        self.levels = [
            level for level in self.levels if level.start_s <= now < level.end_s or level.pending
        ]

    def level_now(self, now: int) -> Level:
        """Return the level that is being worked on. There must be no bookings."""
        self.clear(now)
        if not self.levels:
            self.levels.append(Level(now, self.end_s(now)))
        return self.levels[0]

    def add(self, bookings: Iterable[PlannedJob]) -> None:
        """Add bookings in the order in which they were packed."""
        for booking in bookings:
            booking.turn = next(self._turns)
            booking.level.pending += 1
            self.bookings.append(booking)
            self._by_job[booking.job] = booking
        self._sort()

    def empty(self) -> list[Job]:
        """Clear the plan; return its jobs in order of their starts."""
        jobs = [booking.job for booking in self.bookings]
        self.bookings = []
        self._by_job = {}
        for level in self.levels:
            level.pending = 0
        return jobs

    def due(self, now: int) -> list[PlannedJob]:
        """Return the bookings that should start now, in order."""
        return list(takewhile(lambda booking: booking.start_s <= now, self.bookings))

    def next_start_s(self, now: int) -> int | None:
        """Return the start of the first booking that is not due yet."""
        return next((each.start_s for each in self.bookings if each.start_s > now), None)

    def started(self, booking: PlannedJob, now: int) -> None:
        """Start it now; if that is later than planned, levels behind its own wait for it."""
        self._remove(booking)
        self._reach(booking.level, now + booking.length_s)

    def withdraw(self, job: Job) -> bool:
        """Drop a job; return whether it was planned here."""
        booking = self._by_job.get(job)
        if booking is not None:
            self._remove(booking)
        return booking is not None

    def start_of(self, job: Job) -> int | None:
        """Return when a job is planned to start; None if it is not planned here."""
        booking = self._by_job.get(job)
        return None if booking is None else booking.start_s

    def shift(self, booking: PlannedJob, now: int, *, alone: bool) -> None:
        """Move a job that the machine refused to the next scheduling point, first in its level.

        There it joins the planned level, if the nodes suffice; otherwise, and always if `alone`, it gets a
        level of its own before that. Later bookings move back as far as necessary.
        """
        self._remove(booking)
        booking.rank, booking.partition = SHIFTED, None
        behind = self.levels.index(booking.level) + 1
        point_s = max(booking.level.end_s, self._running_until_s(now))
        following = self.levels[behind] if behind < len(self.levels) else None
        if following is None or alone or not self._joins(booking, following, now):
            start_s = self.cluster.plan(now).earliest(booking.nodes, booking.length_s, point_s)
            following = Level(start_s, start_s)
            self.levels.insert(behind, following)
        booking.level, booking.start_s = following, following.start_s
        self.add([booking])
        self._reach(following, booking.end_s)

    def compress(self, packing: Packing, now: int, accepts: Callable[[PlannedJob], bool]) -> None:
        """Move bookings on the current level to earlier gaps, after an early end.

        In their order, and only where `accepts` agrees with the booking as moved. `packing` is this plan.
        """
        for booking in list(self.bookings):
            if booking.level.start_s > now:
                break
            planned_s, until_s = booking.start_s, booking.end_s
            packing.profile.take(-booking.nodes, max(planned_s, now), max(until_s, now))
            earlier_s = packing.profile.earliest(booking.nodes, booking.length_s, now)
            if earlier_s < planned_s:
                booking.start_s = earlier_s
                if not accepts(booking):
                    booking.start_s = planned_s
            packing.profile.take(booking.nodes, max(booking.start_s, now), booking.end_s)
        self._sort()

    def pull_forward(self, now: int) -> None:
        """Move every level that can begin earlier, as a whole, after an early end."""
        self.clear(now)
        running_until_s = self._running_until_s(now)
        point_s = now
        on_level: dict[Level, list[PlannedJob]] = {}
        moved = False
        for level in self.levels:
            if level.start_s > point_s and level.pending:
                on_level = on_level or self._on_level()
                self._move(level, on_level[level], point_s, now)
                moved = True
            if level.start_s <= now:
                pending = takewhile(lambda booking: booking.level.start_s <= now, self.bookings)
                ends_s = [each.end_s for each in pending if each.level is level]
                level.end_s = max([running_until_s, *ends_s])
            point_s = max(point_s, level.end_s)
        if moved:
            self._sort()

    def _move(self, level: Level, inside: list[PlannedJob], point_s: int, now: int) -> None:
        """Move a level to an earlier scheduling point, unless advance reservations are in the way."""
        earlier_s = level.start_s - point_s
        if self.cluster.reserved and not self._unreserved(inside, earlier_s, now):
            return
        for booking in inside:
            booking.start_s -= earlier_s
        level.start_s -= earlier_s
        level.end_s -= earlier_s

    def _on_level(self) -> dict[Level, list[PlannedJob]]:
        found: dict[Level, list[PlannedJob]] = {level: [] for level in self.levels}
        for booking in self.bookings:
            found[booking.level].append(booking)
        return found

    def _unreserved(self, inside: list[PlannedJob], earlier_s: int, now: int) -> bool:
        """Return whether a level, moved so, leaves all advance reservations alone."""
        cluster = self.cluster
        profile = cluster.plan(now)
        for booking in inside:
            start_s = booking.start_s - earlier_s
            end_s = start_s + booking.length_s
            if not profile.fits(booking.nodes, start_s, end_s):
                return False
            profile.take(booking.nodes, start_s, end_s)
            if booking.partition is not None:
                assert isinstance(cluster, MappedCluster)
                if not cluster.unreserved(booking.partition, start_s, end_s):
                    return False
        return True

    def _running_until_s(self, now: int) -> int:
        ends = self.cluster.ends
        return max(ends[-1][0], now) if ends else now

    def _joins(self, booking: PlannedJob, level: Level, now: int) -> bool:
        """Return whether the nodes suffice at the beginning of a level that is not verified, nor due yet."""
        if level.start_s < now:
            return False
        inside = [each for each in self.bookings if each.level is level]
        if any(each.partition is not None for each in inside):
            return False
        profile = self.cluster.plan(now)
        for each in inside:
            profile.take(each.nodes, each.start_s, each.end_s)
        return profile.fits(booking.nodes, level.start_s, level.start_s + booking.length_s)

    def _reach(self, level: Level, end_s: int) -> None:
        """Extend a level to at least `end_s`, and move later levels as far as necessary."""
        if end_s <= level.end_s:
            return
        point_s = level.end_s = end_s
        for behind in self.levels[self.levels.index(level) + 1 :]:
            later_s = point_s - behind.start_s
            if later_s <= 0:
                break
            for booking in self.bookings:
                if booking.level is behind:
                    booking.start_s += later_s
            behind.start_s += later_s
            behind.end_s += later_s
            point_s = behind.end_s
        self._sort()

    def _remove(self, booking: PlannedJob) -> None:
        self.bookings.remove(booking)
        del self._by_job[booking.job]
        booking.level.pending -= 1

    def _sort(self) -> None:
        self.bookings.sort(key=lambda booking: (booking.start_s, booking.rank, booking.turn))
