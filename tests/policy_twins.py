"""Slow twins of the scheduling policies: each from its definition alone, with nothing but lists.

Whether a job fits is found by looking at every second of its requested time; lists are sorted anew at
every look. Nothing here comes from `kalends`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Rectangle = tuple[int, int, int]
"""Start, end, nodes."""


@dataclass(eq=False)
class Twin:
    """A job; `requested` and `run` are what is left of them after a preemption."""

    order: int
    submit: int
    nodes: int
    requested: int
    run: int
    priority: int = 0
    until: int = -1
    end: int = -1
    begun: int = -1
    hops: int = 0
    allowance: int = 0


class World:
    """A cluster, its queue and its clock."""

    def __init__(self, nodes: int, reservations: Iterable[Rectangle]) -> None:
        self.nodes = nodes
        self.reservations = list(reservations)
        self.waiting: list[Twin] = []
        self.running: list[Twin] = []
        self.decisions: list[tuple[int, int, int]] = []
        """Time, order of submission, nodes given; 0 for a job that was stopped."""
        self.begun = 0
        self.next_start: int | None = None
        """When somebody who waits is to start, for those that plan it; None: no policy has said so."""

    def free(self, time: int, running: Iterable[Twin]) -> int:
        reserved = sum(nodes for start, end, nodes in self.reservations if start <= time < end)
        return self.nodes - reserved - sum(job.nodes for job in running if job.until > time)

    def fits(self, job: Twin, start: int, running: Iterable[Twin] | None = None) -> bool:
        """Whether the job could run from `start` on, beside what runs and is reserved."""
        beside = self.running if running is None else list(running)
        end = start + job.requested
        return all(self.free(time, beside) >= job.nodes for time in [start, *range(start + 1, end)])

    def earliest(self, job: Twin, now: int, extra: Twin | None = None) -> int:
        """When the job could start if nothing else but `extra`, from now on, were started."""
        beside = list(self.running)
        if extra is not None:
            beside.append(Twin(-1, -1, extra.nodes, 0, 0, until=now + extra.requested))
        start = now
        while not self.fits(job, start, beside):
            start += 1
        return start

    def start(self, job: Twin, now: int) -> None:
        self.waiting.remove(job)
        self.running.append(job)
        self.begun += 1
        job.begun, job.until, job.end = self.begun, now + job.requested, now + job.run
        self.decisions.append((now, job.order, job.nodes))

    def stop(self, job: Twin, now: int) -> None:
        self.running.remove(job)
        self.waiting.append(job)
        job.requested, job.run = job.until - now, job.end - now
        self.decisions.append((now, job.order, 0))

    def in_order(self) -> list[Twin]:
        return sorted(self.waiting, key=lambda job: job.order)


Pass = Callable[[World, int], None]
Rank = Callable[[Twin], Any]


def simulate(
    jobs: list[Twin], nodes: int, reservations: list[Rectangle], schedule: Pass
) -> list[tuple[int, int, int]]:
    """All decisions. At one time first submissions, then ends in the order in which the runs began; if
    there are neither, the end of a reservation counts. One pass after every single event.

    For who plans starts, the next of them counts in place of reservations, if nothing else is then."""
    world = World(nodes, reservations)
    coming = sorted(jobs, key=lambda job: job.order)
    now = -1
    while coming or world.running or world.waiting:
        times = [job.submit for job in coming] + [job.end for job in world.running]
        if world.next_start is None:
            times += [end for _, end, _ in reservations if end > now]
        elif world.waiting:
            times.append(world.next_start)
        now = min(times)
        quiet = True
        while coming and coming[0].submit == now:
            world.waiting.append(coming.pop(0))
            schedule(world, now)
            quiet = False
        while ending := [job for job in world.running if job.end == now]:
            world.running.remove(min(ending, key=lambda job: job.begun))
            schedule(world, now)
            quiet = False
        if quiet:
            schedule(world, now)
    return world.decisions


def strict(rank: Rank) -> Pass:
    """Only the first in order may start."""

    def schedule(world: World, now: int) -> None:
        while world.waiting:
            first = min(world.waiting, key=lambda job: (rank(job), job.order))
            if not world.fits(first, now):
                return
            world.start(first, now)

    return schedule


def scan(rank: Rank) -> Pass:
    """Everybody in order, whoever fits."""

    def schedule(world: World, now: int) -> None:
        for job in sorted(world.waiting, key=lambda job: (rank(job), job.order)):
            if world.fits(job, now):
                world.start(job, now)

    return schedule


def backfill(rank: Rank = lambda job: job.order, percent: int = 0) -> Pass:
    """Whoever delays the head by no more than what is left of its allowance, in order of `rank`."""
    allowed: dict[Twin, int] = {}

    def schedule(world: World, now: int) -> None:
        while world.waiting and world.fits(world.in_order()[0], now):
            world.start(world.in_order()[0], now)
        if not world.waiting:
            return
        head = world.in_order()[0]
        allowed.setdefault(head, head.requested * percent // 100)
        promised = world.earliest(head, now)
        for job in sorted(world.in_order()[1:], key=rank):
            if not world.fits(job, now):
                continue
            delay = world.earliest(head, now, beside := job) - promised
            if delay <= allowed[head]:
                allowed[head] -= delay
                promised += delay
                world.start(beside, now)

    return schedule


def urgent(rank: Rank) -> Pass:
    """As `backfill` without a delay, in the order of `rank`: that of the head, too."""

    def schedule(world: World, now: int) -> None:
        def in_order() -> list[Twin]:
            return sorted(world.waiting, key=lambda job: (rank(job), job.order))

        while world.waiting and world.fits(in_order()[0], now):
            world.start(in_order()[0], now)
        if not world.waiting:
            return
        head, *others = in_order()
        promised = world.earliest(head, now)
        for job in others:
            if world.fits(job, now) and world.earliest(head, now, job) <= promised:
                world.start(job, now)

    return schedule


def fair(half_life: int) -> Pass:
    """As `backfill`, the most urgent first, and of these whose user has used least for each share. What a
    job counts is worth twice as much after each half-life, in steps of a 64th; there are three users.
    """
    charges: list[tuple[int, int, int]] = []
    running: dict[Twin, int] = {}

    def worth(time: int) -> int:
        if not half_life:
            return 1
        doublings, step = divmod(time * 64 // half_life, 64)
        return int(Decimal(2) ** (Decimal(step) / 64) * (1 << 32)) << doublings

    def use(user: int) -> int:
        return sum(nodes_s * worth(time) for who, time, nodes_s in charges if who == user)

    def rank(job: Twin) -> Any:
        return (-job.priority, use(job.order % 3) // (1 + job.order % 3), job.order)

    def charge(job: Twin, now: int) -> None:
        running[job] = now
        charges.append((job.order % 3, now, job.nodes * job.requested))

    def schedule(world: World, now: int) -> None:
        for job in [job for job in running if job not in world.running]:
            began = running.pop(job)
            charges.append((job.order % 3, began, -job.nodes * job.requested))
            charges.append((job.order % 3, now, job.nodes * (now - began)))
        while world.waiting and world.fits(first := min(world.waiting, key=rank), now):
            world.start(first, now)
            charge(first, now)
        if not world.waiting:
            return
        head, *others = sorted(world.waiting, key=rank)
        promised = world.earliest(head, now)
        started = []
        for job in others:
            if world.fits(job, now) and world.earliest(head, now, job) <= promised:
                world.start(job, now)
                started.append(job)
        for job in started:
            charge(job, now)

    return schedule


def overtaking(hops_max: int) -> Pass:
    """In order of submission; whoever fits may overtake those that were overtaken less than so often."""

    def schedule(world: World, now: int) -> None:
        for job in world.in_order():
            before = [other for other in world.waiting if other.order < job.order]
            if all(other.hops < hops_max for other in before) and world.fits(job, now):
                world.start(job, now)
                for other in before:
                    other.hops += 1

    return schedule


def preemptive(rank: Rank) -> Pass:
    """The first in order stops whom it must: the least urgent, then the youngest, and nobody in vain."""

    def schedule(world: World, now: int) -> None:
        while world.waiting:
            first = min(world.waiting, key=lambda job: (rank(job), job.order))
            if not world.fits(first, now):
                victims = _victims(world, first, now)
                if not victims:
                    return
                for job in victims:
                    world.stop(job, now)
            world.start(first, now)

    def _victims(world: World, first: Twin, now: int) -> list[Twin]:
        def fits_without(stopped: list[Twin]) -> bool:
            return world.fits(first, now, [job for job in world.running if job not in stopped])

        weaker = [job for job in world.running if rank(job) > rank(first) and job.until > now]
        weaker.sort(key=lambda job: (rank(job), job.order), reverse=True)
        stopped: list[Twin] = []
        for job in weaker:
            if not fits_without(stopped):
                stopped.append(job)
        if not fits_without(stopped):
            return []
        for job in reversed(list(stopped)):
            others = [other for other in stopped if other is not job]
            if fits_without(others):
                stopped = others
        return stopped

    return schedule


def conservative() -> Pass:
    """Everybody has a start from the submission on; at any other event each, in order, gets an earlier
    one if the others, where they stand by then, leave it. Who is due starts in the order in which
    the starts were reserved, as in pyss; a fresh one waits for those that are due in its second."""
    starts: dict[Twin, int] = {}

    def earliest(world: World, job: Twin, now: int) -> int:
        def room(time: int) -> bool:
            planned = [
                other.nodes
                for other, start in starts.items()
                if other is not job and start <= time < start + other.requested
            ]
            return world.free(time, world.running) - sum(planned) >= job.nodes

        start = now
        while not all(room(time) for time in range(start, start + job.requested)):
            start += 1
        return start

    def schedule(world: World, now: int) -> None:
        fresh = [job for job in world.in_order() if job not in starts]
        are_due = any(start <= now for start in starts.values())
        for job in fresh or world.in_order():
            start = earliest(world, job, now)
            if start != starts.get(job):
                starts.pop(job, None)
                starts[job] = start
        if not (fresh and are_due):
            for job in [job for job, start in starts.items() if start <= now]:
                del starts[job]
                world.start(job, now)
        world.next_start = min(starts.values(), default=now)

    return schedule


def urgency(age_s: int) -> Rank:
    """The level now of a job that gains one for each `age_s` waited; at any now, the order is this."""
    return lambda job: job.submit - age_s * job.priority if age_s else -job.priority


TWINS: dict[str, Callable[[], Pass]] = {
    "fcfs": lambda: strict(lambda job: job.order),
    "fcfs-scan": lambda: scan(lambda job: job.order),
    "sjf": lambda: strict(lambda job: job.requested),
    "sjf-scan": lambda: scan(lambda job: job.requested),
    "ljf": lambda: strict(lambda job: -job.requested),
    "ljf-scan": lambda: scan(lambda job: -job.requested),
    "smjf": lambda: strict(lambda job: job.nodes),
    "swjf": lambda: strict(lambda job: job.nodes * job.requested),
    "swjf-scan": lambda: scan(lambda job: job.nodes * job.requested),
    "bjf": lambda: strict(lambda job: -job.nodes),
    "bjf-scan": lambda: scan(lambda job: -job.nodes),
    "priority": lambda: strict(urgency(0)),
    "priority:3": lambda: strict(urgency(3)),
    "priority-scan": lambda: scan(urgency(0)),
    "priority-scan:3": lambda: scan(urgency(3)),
    "preemptive": lambda: preemptive(urgency(0)),
    "preemptive:3": lambda: preemptive(urgency(3)),
    "easy": backfill,
    "easy-priority": lambda: urgent(urgency(0)),
    "easy-priority:3": lambda: urgent(urgency(3)),
    "easy-sjbf": lambda: backfill(lambda job: job.requested),
    "easy-slack:0": backfill,
    "easy-slack:50": lambda: backfill(percent=50),
    "easy-slack:200": lambda: backfill(percent=200),
    "fair-share": lambda: fair(7 * 86_400),
    "fair-share:0": lambda: fair(0),
    "fair-share:3": lambda: fair(3),
    "conservative": conservative,
    "no-starvation:0": lambda: overtaking(0),
    "no-starvation:1": lambda: overtaking(1),
    "no-starvation:3": lambda: overtaking(3),
}
"""One for each policy that has one, with numbers for those that take them; each call is a fresh twin."""
