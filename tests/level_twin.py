"""A slow twin of the level policies, from the words of Gehring and Ramme 1996 (sections 3.2, 3.3, 4.1,
4.2) and of docs/papers/ccs.md: nothing but lists, every second looked at, everything counted anew.

The mapper is a stranger, asked only whether some rectangles can be configured together: `Mapper`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Any

Fixed = tuple[int, int, Any]
"""Start, end, and the nodes that are taken."""
Wish = tuple[int, int, int]
"""Nodes, start, end."""
Mapper = Callable[[list[Fixed], list[Wish]], list[Any]]
"""The nodes that each wish gets beside what is fixed, wishes in order of start; None where it cannot."""

STACKED = ("ffdh*", "ffih*", "fcfs*", "ivs")


@dataclass(eq=False)
class Level:
    start: int
    end: int


@dataclass(eq=False)
class Twin:
    """A job. Planned while it has a level; running while `until` is set and `end` has not come."""

    order: int
    submit: int
    nodes: int
    requested: int
    run: int
    priority: int = 0
    interactive: bool = False
    start: int = -1
    until: int = -1
    end: int = -1
    begun: int = -1
    level: Level | None = None
    shifted: bool = False
    turn: int = 0
    place: Any = None


@dataclass
class LevelTwin:
    """One machine under one rule; `mapper` is None where any nodes will do."""

    rule: str
    nodes: int
    mapper: Mapper | None = None
    verified: bool = True
    threshold: int = 0
    reserved: list[tuple[int, int, int, Any]] = field(default_factory=list)
    """Start, end, how many nodes, and which."""
    orders: tuple[int, ...] = (1, 2, 4)
    running: list[Twin] = field(default_factory=list)
    planned: list[Twin] = field(default_factory=list)
    room: list[Twin] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    early: bool = False
    begun: int = 0
    turns: int = 0

    def run(self, jobs: list[Twin]) -> None:
        """Every second: submissions, then ends in the order of the starts, then time alone."""
        coming, now = list(jobs), 0
        while coming or self.running or self.planned or self.room:
            while coming and coming[0].submit == now:
                self.submit(coming.pop(0), now)
                self.look(now)
            while ending := [job for job in self.running if job.end == now]:
                job = min(ending, key=lambda each: each.begun)
                self.running.remove(job)
                self.early = self.early or job.until > now
                self.look(now)
            self.look(now)
            now += 1
            assert now < 5000, "somebody starves"

    # What is free, second by second.

    def free(self, time: int, now: int, without: list[Twin]) -> int:
        taken = sum(job.nodes for job in self.running if job.until > time)
        taken += sum(nodes for start, end, nodes, _ in self.reserved if start <= time < end)
        for job in self.planned:
            start = max(job.start, now)
            if job not in without and start <= time < start + job.requested:
                taken += job.nodes
        return self.nodes - taken

    def fits(self, job: Twin, start: int, now: int, without: list[Twin]) -> bool:
        seconds = range(start, start + job.requested)
        return all(self.free(time, now, [*without, job]) >= job.nodes for time in seconds)

    def earliest(self, job: Twin, start: int, now: int, without: list[Twin]) -> int:
        while not self.fits(job, start, now, without):
            start += 1
        return start

    def busy_until(self, now: int) -> int:
        return max([now, *(job.until for job in self.running)])

    def over(self, now: int) -> int:
        """The scheduling point behind everything."""
        return max(self.busy_until(now), self.levels[-1].end if self.levels else now)

    # The mapper.

    def fixed(self, planned: list[Twin]) -> list[Fixed]:
        runs = [(job.until - job.requested, job.until, job.place) for job in self.running]
        rooms = [(start, end, place) for start, end, _, place in self.reserved]
        return [*runs, *rooms, *((job.start, job.start + job.requested, job.place)
                                 for job in planned if job.place is not None)]  # fmt: skip

    def mapped(self, job: Twin, start: int, beside: list[Twin]) -> Any:
        """Its nodes if it ran from `start` on, all others staying where they are."""
        assert self.mapper is not None
        return self.mapper(self.fixed(beside), [(job.nodes, start, start + job.requested)])[0]

    @property
    def asks(self) -> bool:
        return self.mapper is not None and self.verified

    # Events.

    def submit(self, job: Twin, now: int) -> None:
        if not self.planned and not self.room:
            possible = self.fits(job, now, now, [])
            if self.asks:
                possible = self.mapped(job, now, []) is not None
            if possible:
                self.tidy(now)
                if not self.levels:
                    self.levels.append(Level(now, self.over(now)))
                job.start, job.level = now, self.levels[0]
                self.plan(job)
                return
        if self.rule in STACKED:
            for level in self.levels:
                last = level.end - job.requested
                for start in range(max(level.start, now), last + 1):
                    if self.fits(job, start, now, []):
                        place = self.mapped(job, start, self.planned) if self.asks else None
                        if not self.asks or place is not None:
                            job.start, job.level, job.place = start, level, place
                            self.plan(job)
                            return
        self.room.append(job)

    def look(self, now: int) -> None:
        if self.early:
            self.early = False
            if self.rule in STACKED:
                self.fill(now)
            self.pull(now)
        self.begin(now)
        while self.room and (
            not self.planned or max(job.start for job in self.planned) - now < self.threshold
        ):
            self.tidy(now)
            self.enter(self.block(), now)
            self.begin(now)

    def begin(self, now: int) -> None:
        refused = []
        for job in [job for job in self.in_order() if job.start <= now]:
            place = None
            if self.mapper is not None:
                place = job.place if job.place is not None else self.mapped(job, now, [])
            if place is None if self.mapper is not None else not self.fits_beside_running(job, now):
                refused.append(job)
                continue
            self.planned.remove(job)
            self.running.append(job)
            self.begun += 1
            job.place, job.begun = place, self.begun
            job.start, job.until, job.end = now, now + job.requested, now + job.run
            assert job.level is not None
            self.reach(job.level, job.until)
        for job in refused:
            self.shift(job, now)

    def fits_beside_running(self, job: Twin, now: int) -> bool:
        return self.fits(job, now, now, self.planned)

    # The waiting room, and blocks.

    def block(self) -> list[Twin]:
        last = len(self.orders) - 1
        queues = [
            [job for job in self.room if min(job.priority, last) == p] for p in range(last + 1)
        ]
        highest = max(order for order, queue in zip(self.orders, queues, strict=True) if queue)
        taken = []
        for order, queue in reversed(list(zip(self.orders, queues, strict=True))):
            taken += queue[: ceil(len(queue) * order / highest)]
        self.room = [job for job in self.room if job not in taken]
        return taken

    def vote(self, block: list[Twin], now: int) -> str:
        if self.rule != "ivs":
            return self.rule
        seconds = range(now, now + max(job.requested for job in block))
        wanted = {t: sum(job.nodes for job in block if now + job.requested > t) for t in seconds}
        if all(self.free(time, now, []) >= wanted[time] for time in seconds):
            return "fcfs*"
        return "ffih*" if sum(job.interactive for job in block) > len(block) / 2 else "ffdh*"

    def enter(self, block: list[Twin], now: int) -> None:
        rule = self.vote(block, now)
        first = max(len(self.levels) - 1, 0) if rule == "fcfs*" else len(self.levels)
        if rule.startswith("ffdh"):
            block = sorted(block, key=lambda job: -job.requested)
        elif rule.startswith("ffih"):
            block = sorted(block, key=lambda job: job.requested)
        for job in block:
            self.put(rule, job, first, now, now)
            self.plan(job)
        unsettled = block if self.asks else []
        while unsettled:
            settled = [job for job in self.planned if job not in unsettled]
            assert self.mapper is not None
            wishes = [(job.nodes, job.start, job.start + job.requested) for job in unsettled]
            for job, place in zip(unsettled, self.mapper(self.fixed(settled), wishes), strict=True):
                job.place = place
            accepted = [job for job in self.planned if job.place is not None]
            unsettled = [job for job in unsettled if job.place is None]
            suggested = []
            for job in unsettled:
                start = job.start
                while self.mapped(job, start, accepted) is None:
                    start += 1
                suggested.append(start)
            for job, start in zip(unsettled, suggested, strict=True):
                self.put(rule, job, first, start, now)

    def put(self, rule: str, job: Twin, first: int, not_before: int, now: int) -> None:
        for level in self.levels[first:]:
            top = level is self.levels[-1]
            begin = max(level.start, not_before)
            inside = range(begin, level.end - job.requested + 1) if rule.endswith("*") else range(0)
            starts = [start for start in inside if self.fits(job, start, now, [])]
            if not starts and rule == "fcfs*" and top:
                starts = [self.earliest(job, begin, now, [])]
            at_border = begin == level.start and (top or begin + job.requested <= level.end)
            if not starts and at_border and self.fits(job, begin, now, []):
                starts = [begin]
            if starts:
                job.start, job.level = starts[0], level
                level.end = max(level.end, job.start + job.requested)
                return
        job.start = self.earliest(job, max(self.over(now), not_before), now, [])
        job.level = Level(job.start, job.start + job.requested)
        self.levels.append(job.level)

    # What does not go as planned.

    def plan(self, job: Twin) -> None:
        self.turns += 1
        job.turn = self.turns
        self.planned.append(job)

    def in_order(self) -> list[Twin]:
        return sorted(self.planned, key=lambda job: (job.start, not job.shifted, job.turn))

    def tidy(self, now: int) -> None:
        """Levels that are over, or that nothing is left of, are forgotten."""
        used = [job.level for job in self.planned]
        self.levels = [
            level for level in self.levels if level.start <= now < level.end or level in used
        ]

    def shift(self, job: Twin, now: int) -> None:
        """To the next scheduling point, first in its level."""
        self.planned.remove(job)
        assert job.level is not None
        behind = self.levels.index(job.level) + 1
        point = max(job.level.end, self.busy_until(now))
        following = self.levels[behind] if behind < len(self.levels) else None
        if following is not None and not self.asks:
            others = [each for each in self.planned if each.level is not following]
            if not self.fits(job, following.start, now, others):
                following = None
        else:
            following = None
        if following is None:
            start = self.earliest(job, point, now, self.planned)
            following = Level(start, start)
            self.levels.insert(behind, following)
        job.start, job.level, job.shifted, job.place = following.start, following, True, None
        self.plan(job)
        self.reach(following, job.start + job.requested)

    def reach(self, level: Level, end: int) -> None:
        """A level gets longer: those behind it wait as much as they must."""
        level.end = max(level.end, end)
        before = level
        for behind in self.levels[self.levels.index(level) + 1 :]:
            self.move(behind, max(before.end - behind.start, 0))
            before = behind

    def move(self, level: Level, later: int) -> None:
        level.start += later
        level.end += later
        for job in self.planned:
            if job.level is level:
                job.start += later

    def fill(self, now: int) -> None:
        """Something ended early: on the level in progress each goes to an earlier gap, if it can."""
        for job in self.in_order():
            assert job.level is not None
            if job.level.start > now:
                continue
            start = self.earliest(job, now, now, [])
            if start < job.start:
                others = [each for each in self.planned if each is not job]
                place = self.mapped(job, start, others) if self.asks else None
                if not self.asks or place is not None:
                    job.start, job.place = start, place

    def pull(self, now: int) -> None:
        """Something ended early: every level that can begin earlier does, whole."""
        self.tidy(now)
        point = now
        for level in self.levels:
            inside = [job for job in self.planned if job.level is level]
            if inside and level.start > point:
                self.move_earlier(level, inside, level.start - point, now)
            if level.start <= now:
                ends = [job.start + job.requested for job in inside]
                level.end = max([self.busy_until(now), *ends])
            point = max(point, level.end)

    def move_earlier(self, level: Level, inside: list[Twin], earlier: int, now: int) -> None:
        self.move(level, -earlier)
        others = [job for job in self.planned if job not in inside]
        free = all(
            self.free(time, now, others) >= 0
            for job in inside
            for time in range(job.start, job.start + job.requested)
        )
        for job in inside:
            if job.place is not None and self.mapper is not None:
                rooms = [(start, end, place) for start, end, _, place in self.reserved]
                at = (job.start, job.start + job.requested)
                free = free and all(
                    end <= at[0] or at[1] <= start or not set(place) & set(job.place)
                    for start, end, place in rooms
                )
        if not free:
            self.move(level, earlier)
