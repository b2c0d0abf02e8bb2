"""The head of the queue, second by second: that it never idles, and that EASY's promise to it is kept.

When a job is at the head and cannot start, EASY promises it the first time at which enough nodes are
free if all that runs takes its requested time (Lifka 1995). Later the promise may only become earlier. It
is taken at the end of a second, when all its ends and starts are done: so it does not matter in which
order a simulator takes them. Nor can anybody be left then who fits and leaves the head its promise: EASY
starts them all. On a machine with a topology the promise is the first time at which a partition is free
for it, among the nodes that the others really have: so it does not matter which free nodes a mapper would
take. Other jobs that the mapper could have placed are not considered there.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence

from kalends.simulation.checking.findings import Blocked, Finding, LoggedJob, Progress, Run, untold
from kalends.simulation.checking.room import Room
from kalends.simulation.checking.ticks import SECONDS, Ticks
from kalends.simulation.checking.topologies import PartitionSets

Running = list[tuple[int, int, Run]]
"""Sorted ``(until_s, order, run)``."""


class Heads:
    """Replays `runs`, which are in order of submission.

    After `findings`, `waited` counts the heads that had to wait.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        blocked: Sequence[Blocked],
        nodes: int,
        *,
        promises: bool,
        topology: PartitionSets | None = None,
        progress: Progress = untold,
        ticks: Ticks = SECONDS,
    ) -> None:
        self.waited = 0
        self._runs = runs
        self._blocked = blocked
        self._nodes = nodes
        self._promises = promises
        self._topology = topology
        self._progress = progress
        self._ticks = ticks
        self._running: Running = []
        self._waiting: dict[int, Run] = {}
        """Jobs in order of submission, without those found to be held back."""

    def findings(self) -> Iterator[Finding]:
        runs, running = self._runs, self._running
        arrivals = _by_second(runs, lambda run: run.request.submit_s)
        starts = _by_second(runs, lambda run: run.start_s)
        ends = _by_second(runs, lambda run: run.end_s)
        at = 0
        head: Run | None = None
        promise_s: int | None = None
        idle = False
        changes = {each.end_s for each in self._blocked}
        for now in sorted({*arrivals, *starts, *ends, *changes}):
            for run in ends.get(now, ()):
                place = bisect_left(running, (run.until_s, run.order))
                if place < len(running) and running[place][2] is run:
                    del running[place]
            for run in arrivals.get(now, ()):
                if run.start_s >= now:
                    self._waiting[run.order] = run
            for run in starts.get(now, ()):
                insort(running, (run.until_s, run.order, run))
                self._waiting.pop(run.order, None)
            while at < len(runs) and runs[at].start_s <= now:
                at += 1
            self._progress(at, len(runs))
            if at == len(runs) or runs[at].request.submit_s > now:
                continue
            if head is not runs[at]:
                head, promise_s, idle = runs[at], None, False
            shadow_s = self._shadow_s(head, now, ())
            if shadow_s <= now:
                if not idle:
                    idle, by = True, head.start_s - now
                    yield Finding(
                        "idle", head.request.id, now, by, "is first, fits, and does not start"
                    )
                if promise_s is not None:
                    promise_s = now
                continue
            first = promise_s is None
            self.waited += first
            if self._promises:
                started = [run for run in starts.get(now, ()) if run.order > head.order]
                due_s = shadow_s if promise_s is None else promise_s
                events = len(arrivals.get(now, ())) + len(ends.get(now, ())) + (now in changes)
                if started and events <= 1:
                    due_s = min(due_s, self._shadow_s(head, now, started))
                yield from self._broken(head, now, due_s, shadow_s, started, first)
                if self._topology is None:
                    yield from self._held_back(head, now, shadow_s)
            promise_s = shadow_s

    def _broken(
        self, head: Run, now: int, due_s: int, shadow_s: int, started: Sequence[Run], first: bool
    ) -> Iterator[Finding]:
        """Yield breaches of the promise of `due_s`, by jobs that `started` now or by the head's own start."""
        seconds = self._ticks.seconds
        if shadow_s > due_s:
            culprits = ", ".join(str(run.request.id) for run in started[:5]) or "none"
            said = f"could start at {seconds(due_s)}, now at {seconds(shadow_s)}; "
            said += f"jobs started before it: {culprits}"
            yield Finding("delayed", head.request.id, now, shadow_s - due_s, said)
        if first and head.start_s > due_s:
            said = f"was promised {seconds(due_s)} at the head of the queue, "
            said += f"starts at {seconds(head.start_s)}"
            yield Finding("promise", head.request.id, now, head.start_s - due_s, said)

    def _held_back(self, head: Run, now: int, shadow_s: int) -> Iterator[Finding]:
        """Yield jobs that could start and leave the head its promise, and do not."""
        free = self._nodes - sum(each[2].request.nodes for each in self._running)
        free -= sum(each.nodes for each in self._blocked if each.start_s <= now < each.end_s)
        if free <= 0:
            return
        narrow = [run for run in self._waiting.values() if run.request.nodes <= free]
        allowed = self._beside(head, now, shadow_s)
        for run in narrow:
            wanted = run.request
            if allowed(wanted):
                del self._waiting[run.order]
                said = f"{free} nodes are free for its {wanted.nodes}; job {head.request.id}, the first, "
                said += f"could still start at {self._ticks.seconds(shadow_s)}"
                yield Finding("held-back", wanted.id, now, run.start_s - now, said)

    def _beside(self, head: Run, now: int, shadow_s: int) -> Callable[[LoggedJob], bool]:
        """Return a test whether the head could still start at `shadow_s` next to a job that fits now."""
        if not self._blocked:
            later = sum(
                run.request.nodes for until_s, _, run in self._running if until_s > shadow_s
            )
            extra = self._nodes - later - head.request.nodes
            return lambda wanted: now + wanted.requested_s <= shadow_s or wanted.nodes <= extra
        room = Room(self._nodes)
        for until_s, _, run in self._running:
            room.add(now, until_s, -run.request.nodes)
        for each in self._blocked:
            room.add(each.start_s, each.end_s, -each.nodes)
        room.add(shadow_s, shadow_s + head.request.requested_s, -head.request.nodes)
        return lambda wanted: room.earliest_s(wanted.nodes, wanted.requested_s, now) == now

    def _shadow_s(self, head: Run, now: int, without: Sequence[Run]) -> int:
        """Return when the head could start if nothing else were started, `without` some running jobs."""
        left_out = {run.order for run in without}
        running = (
            [each for each in self._running if each[1] not in left_out]
            if without
            else self._running
        )
        if self._topology is not None:
            return _shadow_on_topology_s(self._topology, head, now, running)
        if self._blocked:
            return self._shadow_among_reservations_s(head, now, running)
        free = self._nodes - sum(each[2].request.nodes for each in running)
        shadow_s = now
        for until_s, _, run in running:
            if free >= head.request.nodes:
                break
            free += run.request.nodes
            shadow_s = max(until_s, now)
        return shadow_s

    def _shadow_among_reservations_s(self, head: Run, now: int, running: Running) -> int:
        length_s = head.request.requested_s
        taken = [(now, max(until_s, now), run.request.nodes) for until_s, _, run in running]
        taken += [
            (each.start_s, each.end_s, each.nodes) for each in self._blocked if each.end_s > now
        ]
        for start_s in sorted({now, *(end_s for _, end_s, _ in taken)}):
            borders = [start_s]
            borders += [
                begin_s for begin_s, _, _ in taken if start_s < begin_s < start_s + length_s
            ]
            if all(
                sum(nodes for begin_s, end_s, nodes in taken if begin_s <= time_s < end_s)
                + head.request.nodes
                <= self._nodes
                for time_s in borders
            ):
                return start_s
        raise AssertionError("after all ends everything is free")


def _shadow_on_topology_s(topology: PartitionSets, head: Run, now: int, running: Running) -> int:
    shadow_s = now
    for at, (until_s, _, _) in enumerate(running):
        busy = 0
        for _, _, run in running[at:]:
            busy |= run.mask
        if topology.fits(head.request.nodes, busy):
            return shadow_s
        shadow_s = max(until_s, now)
    return shadow_s


def _by_second(runs: Sequence[Run], second: Callable[[Run], int]) -> dict[int, list[Run]]:
    found: dict[int, list[Run]] = {}
    for run in runs:
        found.setdefault(second(run), []).append(run)
    return found
