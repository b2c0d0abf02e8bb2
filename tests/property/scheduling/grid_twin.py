"""EASY and FCFS over a grid, slow and from their definitions: all places tried, time second by second."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations, product
from math import ceil

import msgspec

from kalends.scheduling.reservations import Reservation
from kalends.simulation.job import SimulatedJob

HORIZON_S = 400


class Rules(msgspec.Struct, frozen=True):
    """One part for each cluster. Speeds and shares are binary fractions, so that nothing is rounded."""

    nodes: tuple[int, ...]
    speeds: tuple[Fraction, ...]
    once: Fraction
    each: Fraction
    fit: str
    undivided: str
    reservations: tuple[tuple[int, Reservation], ...] = ()

    def stretch(self, placed: Sequence[int]) -> Fraction:
        used = [cluster for cluster, nodes in enumerate(placed) if nodes]
        crossing = self.once + self.each * (len(used) - 1) if len(used) > 1 else Fraction(0)
        return (1 + crossing) / min(self.speeds[cluster] for cluster in used)

    def length_s(self, job: SimulatedJob, placed: Sequence[int]) -> int:
        return ceil(job.requested_s * self.stretch(placed))

    def reserved(self, time_s: int) -> list[int]:
        return [
            sum(each.nodes for part, each in self.reservations
                if part == cluster and each.start_s <= time_s < each.end_s)
            for cluster in range(len(self.nodes))
        ]  # fmt: skip


def every_place(rules: Rules, job: SimulatedJob, free: Sequence[int]) -> list[tuple[int, ...]]:
    """All the ways in which the job may lie on these free nodes, whatever is preferred."""
    count = len(free)
    components = job.components
    kind = components.kind if components else rules.undivided
    if kind in {"total", "single"}:
        ways = {
            way for way in product(*(range(max(nodes, 0) + 1) for nodes in free))
            if sum(way) == job.nodes and (kind == "total" or sum(map(bool, way)) == 1)
        }  # fmt: skip
    else:
        assert components
        wanted = components.nodes + (0,) * (count - len(components.nodes))
        if len(wanted) > count:
            return []
        ways = {wanted} if kind == "ordered" else set(permutations(wanted))
    return sorted(
        way for way in ways if all(n <= max(f, 0) for n, f in zip(way, free, strict=True))
    )


def naive_place(rules: Rules, job: SimulatedJob, free: Sequence[int]) -> tuple[int, ...] | None:
    """The way that the rules prefer among all ways."""
    ways = every_place(rules, job, free)
    components = job.components
    kind = components.kind if components else rules.undivided

    def total(way: tuple[int, ...]) -> tuple[object, ...]:
        used = [cluster for cluster, nodes in enumerate(way) if nodes]
        if len(used) == 1:
            return (1, rules.stretch(way), free[used[0]], used[0])
        emptiest_first = sorted(used, key=lambda cluster: (-way[cluster], cluster))
        whole = [cluster for cluster in used if way[cluster] == free[cluster]]
        by_room = sorted(range(len(free)), key=lambda cluster: (-free[cluster], cluster))
        lead = by_room[: len(used) - 1]
        last = [cluster for cluster in used if cluster not in lead]
        filled = all(cluster in whole for cluster in lead) and len(last) == 1
        return (len(used), not filled, free[last[0]] if last else 0, last, emptiest_first)

    def unordered(way: tuple[int, ...]) -> tuple[object, ...]:
        order = list(range(len(free)))
        if rules.fit == "worst":
            order.sort(key=lambda cluster: -free[cluster])
        return tuple(
            index for _, index in sorted(
                ((-way[cluster], index) for index, cluster in enumerate(order) if way[cluster])
            )
        )  # fmt: skip

    return min(ways, key=total if kind in {"total", "single"} else unordered, default=None)


class Twin:
    """Replays jobs; by ``fcfs``, ``easy`` or ``conservative``. Tells start and place of each job."""

    def __init__(self, rules: Rules, policy: str) -> None:
        self.rules = rules
        self.policy = policy
        self.booked: dict[int, tuple[int, tuple[int, ...], int]] = {}
        self.turns: dict[int, int] = {}
        self.reserved = 0
        self._known: dict[tuple[int, tuple[int, ...]], tuple[int, ...] | None] = {}
        self.running: list[tuple[SimulatedJob, tuple[int, ...], int, int]] = []
        self.queue: list[SimulatedJob] = []
        self.told: dict[int, tuple[int, tuple[int, ...]]] = {}

    def replay(self, jobs: Sequence[SimulatedJob]) -> dict[int, tuple[int, tuple[int, ...]]]:
        coming = list(jobs)
        now = 0
        while coming or self.running or self.queue:
            while coming and coming[0].submit_s == now:
                self.queue.append(coming.pop(0))
                self.look(now, self.queue[-1])
            while ended := [each for each in self.running if each[3] == now]:
                self.running.remove(ended[0])
                self.look(now)
            if any(each.end_s == now for _, each in self.rules.reservations) or any(
                start_s == now for start_s, _, _ in self.booked.values()
            ):
                self.look(now)
            now += 1
            assert now < 50 * HORIZON_S
        return self.told

    def free(self, time_s: int) -> list[int]:
        left = list(self.rules.nodes)
        for _, placed, until_s, _ in self.running:
            if until_s > time_s:
                left = [a - b for a, b in zip(left, placed, strict=True)]
        for job in self.queue:
            start_s, placed, end_s = self.booked.get(job.id, (0, (), 0))
            if start_s <= time_s < end_s:
                left = [a - b for a, b in zip(left, placed, strict=True)]
        return [a - b for a, b in zip(left, self.rules.reserved(time_s), strict=True)]

    def naive(self, job: SimulatedJob, free: Sequence[int]) -> tuple[int, ...] | None:
        key = (job.id, tuple(free))
        if key not in self._known:
            self._known[key] = naive_place(self.rules, job, free)
        return self._known[key]

    def place(self, job: SimulatedJob, now: int) -> tuple[int, ...] | None:
        if not self.rules.reservations and self.policy != "conservative":
            return self.naive(job, self.free(now))
        stretch = 1 / max(self.rules.speeds)
        while True:
            window = range(now, max(now + ceil(job.requested_s * stretch), now + 1))
            least = [min(counts) for counts in zip(*map(self.free, window), strict=True)]
            placed = self.naive(job, least)
            if placed is None or self.rules.stretch(placed) <= stretch:
                return placed
            stretch = self.rules.stretch(placed)

    def start(self, job: SimulatedJob, placed: tuple[int, ...], now: int) -> None:
        stretch = self.rules.stretch(placed)
        until_s = now + ceil(job.requested_s * stretch)
        self.running.append((job, placed, until_s, now + ceil(job.run_s * stretch)))
        self.queue.remove(job)
        self.told[job.id] = (now, placed)

    def look(self, now: int, fresh: SimulatedJob | None = None) -> None:
        if self.policy == "conservative":
            self.book(now, fresh)
            return
        while self.queue and (placed := self.place(self.queue[0], now)):
            self.start(self.queue[0], placed, now)
        if not self.queue or self.policy == "fcfs":
            return
        head = self.queue[0]
        shadow_s = now
        while (promised := self.place(head, shadow_s)) is None:
            shadow_s += 1
        for job in self.queue[1:]:
            placed = self.place(job, now)
            if placed is None:
                continue
            until_s = now + self.rules.length_s(job, placed)
            if self.rules.reservations:
                head_until_s = shadow_s + self.rules.length_s(head, promised)
                allowed = all(
                    a - b >= 0
                    for time_s in range(max(now, shadow_s), min(until_s, head_until_s))
                    for a, b in zip(self.left(time_s, placed), promised, strict=True)
                )
            else:
                left = self.left(shadow_s, placed)
                allowed = until_s <= shadow_s or (
                    min(left) >= 0 and naive_place(self.rules, head, left) is not None
                )
            if allowed:
                self.start(job, placed, now)

    def book(self, now: int, fresh: SimulatedJob | None) -> None:
        """Reserve the new job its earliest start, or move every waiting one, each after the other.

        Who is due starts, first whose start was reserved first; a new one waits for those due in its second.
        """
        others_are_due = any(start_s == now for start_s, _, _ in self.booked.values())
        for job in [fresh] if fresh else list(self.queue):
            old = self.booked.pop(job.id, None)
            start_s = now
            while (placed := self.place(job, start_s)) is None:
                start_s += 1
            if old is not None and start_s >= old[0]:
                start_s, placed, _ = old
            else:
                self.turns[job.id] = self.reserved = self.reserved + 1
            self.booked[job.id] = (start_s, placed, start_s + self.rules.length_s(job, placed))
        due = [job for job in self.queue if self.booked[job.id][0] == now]
        if not (fresh and others_are_due):
            for job in sorted(due, key=lambda job: self.turns[job.id]):
                self.start(job, self.booked.pop(job.id)[1], now)

    def left(self, time_s: int, placed: tuple[int, ...]) -> list[int]:
        return [a - b for a, b in zip(self.free(time_s), placed, strict=True)]
