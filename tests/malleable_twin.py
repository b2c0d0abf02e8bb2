"""Slow twins, second by second and from the definitions: malleable jobs, and LS, AS and RS over them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from kalends.simulation.malleable import Course


@dataclass
class Walk:
    """What becomes of a job that is asked to change at given times."""

    end_s: int
    changes: list[tuple[int, int, int]]
    """(when it stops for it, when it has been made, size) of each."""
    iterations: list[int]
    """How many were done on each size, in the order of the sizes it had."""


def walk(course: Course, start_s: int, size: int, orders: list[tuple[int, int]]) -> Walk:
    """One iteration after the other, in exact fractions. `orders` are (when asked, size)."""
    at = course.sizes.index(size)
    clock = Fraction(start_s + (course.setup_s[at] if course.setup_s else 0))
    left = list(orders)
    changes: list[tuple[int, int, int]] = []
    iterations = [0]
    done = 0
    just_changed = False
    while done < course.iterations:
        now = ceil(clock)
        if done % course.every == 0 and not just_changed and left and left[0][0] <= now:
            _, size = left.pop(0)
            changes.append((now, now + course.redistribution_s, size))
            at = course.sizes.index(size)
            clock = Fraction(now + course.reconfiguration_s)
            iterations.append(0)
            just_changed = True
            continue
        clock += Fraction(course.solution_s[at], course.iterations)
        iterations[-1] += 1
        done += 1
        just_changed = False
    return Walk(
        ceil(clock) + (course.summary_s[at] if course.summary_s else 0), changes, iterations
    )


@dataclass(eq=False)
class TwinJob:
    number: int
    submit_s: int
    course: Course
    malleable: bool
    spare_s: int = 0
    start_s: int = -1
    first: int = 0
    orders: list[tuple[int, int]] = field(default_factory=list)
    held: int = 0
    target: int = 0
    until_s: int = 0
    stamp: int = 0
    """The number of the moment at which it was started or asked to change last."""
    log: list[tuple[int, int]] = field(default_factory=list)
    """(time, nodes held from then on)."""

    def time_on(self, size: int) -> int:
        course = self.course
        at = course.sizes.index(size)
        parts = (course.setup_s, course.solution_s, course.summary_s)
        return sum(part[at] for part in parts if part)

    def walked(self) -> Walk:
        return walk(self.course, self.start_s, self.first, self.orders)


class Twin:
    """All of a machine's life under one of the three policies."""

    def __init__(self, policy: str, nodes: int, jobs: list[TwinJob], interval: int = 10) -> None:
        self.policy, self.nodes, self.interval = policy, nodes, interval
        self.jobs = jobs
        self.waiting: list[TwinJob] = []
        self.running: list[TwinJob] = []
        self.stamp = 0
        self.now = 0

    def play(self) -> None:
        to_come = list(self.jobs)
        while to_come or self.waiting or self.running:
            arrived = [job for job in to_come if job.submit_s == self.now]
            for job in arrived:
                to_come.remove(job)
                self.waiting.append(job)
                self.look()
            if not arrived and not self.due():
                self.look()
            while due := self.due():
                self.happen(*due)
                self.look()
            assert sum(job.held for job in self.running) <= self.nodes
            self.now += 1

    def happen(self, job: TwinJob, ends: bool) -> None:
        if ends:
            self.running.remove(job)
            job.log.append((self.now, 0))
            return
        if job.held != job.target:
            job.log.append((self.now, job.target))
        job.held, job.target = job.target, 0
        job.until_s = job.walked().end_s + job.spare_s

    def due(self) -> tuple[TwinJob, bool] | None:
        """The next event of a running job in this second, and whether it is its end."""
        found = []
        for job in self.running:
            walked = job.walked()
            if walked.end_s == self.now:
                found.append((job.stamp, job.number, job, True))
            if (
                job.target
                and len(walked.changes) == len(job.orders)
                and walked.changes[-1][1] == self.now
            ):
                found.append((job.stamp, job.number, job, False))
        return min(found)[2:] if found else None

    def know(self, job: TwinJob) -> None:
        self.stamp += 1
        job.stamp = self.stamp

    def room(self) -> int:
        return self.nodes - sum(job.held for job in self.running if job.until_s > self.now)

    def free(self) -> int:
        return self.nodes - sum(job.held for job in self.running)

    def start(self, job: TwinJob, size: int) -> None:
        self.waiting.remove(job)
        self.running.append(job)
        job.start_s, job.first, job.held = self.now, size, size
        job.until_s = self.now + job.time_on(size) + job.spare_s
        job.log.append((self.now, size))
        self.know(job)

    def ask(self, job: TwinJob, size: int) -> None:
        job.orders.append((self.now, size))
        job.target = size
        job.until_s += job.course.reconfiguration_s + 1
        if size > job.held:
            job.held = size
            job.log.append((self.now, size))
        self.know(job)

    def look(self) -> None:
        if self.policy == "lazy":
            self.lazy()
        else:
            self.adaptive()
        if self.policy == "reconfigurable":
            if self.waiting:
                self.shrink()
            else:
                self.expand()

    def lazy(self) -> None:
        while True:
            able = [job for job in self.waiting if job.course.sizes[0] <= self.room()]
            if not able:
                return
            self.start(able[0], max(size for size in able[0].course.sizes if size <= self.room()))

    def adaptive(self) -> None:
        given: dict[TwinJob, int] = {}
        for job in self.waiting:
            if sum(given.values()) + job.course.sizes[0] <= self.room():
                given[job] = job.course.sizes[0]
        for job in given:
            for size in job.course.sizes:
                if sum(given.values()) - given[job] + size <= self.room():
                    given[job] = size
        for job, size in given.items():
            self.start(job, size)

    def changeable(self) -> list[TwinJob]:
        able = []
        for job in sorted(self.running, key=lambda job: (job.until_s, job.number)):
            if (
                not job.malleable
                or job.target
                or job.until_s <= self.now
                or job.start_s == self.now
            ):
                continue
            if job.orders:
                since_s = self.now - job.orders[-1][0]
                if since_s < 1 or since_s < self.interval * job.course.reconfiguration_s:
                    continue
            able.append(job)
        return able

    def shrink(self) -> None:
        to_come = sum(job.held - job.target for job in self.running if job.target)
        promised = self.room() + to_come
        for waiting in self.waiting:
            needed = waiting.course.sizes[0]
            givers = self.changeable()
            givers.sort(key=lambda job: (job.held - job.course.sizes[0], job.number), reverse=True)
            if needed > promised + sum(job.held - job.course.sizes[0] for job in givers):
                continue
            for giver in givers:
                missing = needed - promised
                if missing <= 0:
                    break
                sizes = [size for size in giver.course.sizes if giver.held - size >= missing]
                size = max(sizes) if sizes else giver.course.sizes[0]
                promised += giver.held - size
                self.ask(giver, size)
            promised -= needed

    def expand(self) -> None:
        while True:
            best: tuple[int, TwinJob, int] | None = None
            for job in self.changeable():
                for size in job.course.sizes:
                    if not job.held < size <= job.held + self.free():
                        continue
                    left = job.until_s - self.now
                    asked_on = job.time_on(job.held) + job.spare_s
                    asked_then = job.time_on(size) + job.spare_s
                    gain = left - left * asked_then // asked_on - job.course.reconfiguration_s
                    if gain > (best[0] if best else 0):
                        best = (gain, job, size)
            if best is None:
                return
            self.ask(best[1], best[2])
