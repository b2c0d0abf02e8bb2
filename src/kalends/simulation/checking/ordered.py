"""Policies that rank the waiting jobs (Jones and Pang 2003, section 4): which start, and that none is passed.

Under a strict policy the first by rank starts as soon as it fits, and all others wait for it. A scan starts
every job that fits, in the order of rank. Within one second, several events may have been handled one after
the other in any order, so a scan is accused of a wrong order only if the second has one event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kalends.simulation.checking.findings import Blocked, Finding, LoggedJob, Progress, Run, untold
from kalends.simulation.checking.room import Room

Rank = Callable[[LoggedJob], int]

RANKS: Final[dict[str, Rank]] = {
    "fcfs": lambda job: 0,
    "sjf": lambda job: job.requested_s,
    "ljf": lambda job: -job.requested_s,
    "smjf": lambda job: job.nodes,
    "swjf": lambda job: job.nodes * job.requested_s,
    "bjf": lambda job: -job.nodes,
}
"""What the first job has least of; equal ranks go in order of submission."""

_SCAN: Final = "-scan"

RANKED: Final = (
    "fcfs-scan", "sjf", "sjf-scan", "ljf", "ljf-scan", "smjf", "swjf", "swjf-scan", "bjf", "bjf-scan",
)  # fmt: skip
"""The policies that are checked here; fcfs has rules of its own."""


class RankedQueue:
    """Replays `runs`, which are in order of submission, under one of the policies `RANKED`."""

    def __init__(
        self,
        runs: Sequence[Run],
        blocked: Sequence[Blocked],
        nodes: int,
        policy: str,
        progress: Progress = untold,
    ) -> None:
        self._runs = runs
        self._blocked = blocked
        self._nodes = nodes
        self._scans = policy.endswith(_SCAN)
        self._rank = RANKS[policy.removesuffix(_SCAN)]
        self._progress = progress
        self._running: dict[int, Run] = {}
        self._waiting: dict[int, Run] = {}
        self._told: set[int] = set()

    def findings(self) -> Iterator[Finding]:
        """Yield jobs that fit and wait though it is their turn, and jobs that started before their turn."""
        seconds: dict[int, tuple[list[Run], list[Run], list[Run]]] = {
            each.end_s: ([], [], []) for each in self._blocked
        }
        for run in self._runs:
            for kind, time in enumerate((run.end_s, run.request.submit_s, run.start_s)):
                seconds.setdefault(time, ([], [], []))[kind].append(run)
        changes = {each.end_s for each in self._blocked}
        started = 0
        for now in sorted(seconds):
            ends, arrivals, starts = seconds[now]
            for run in ends:
                self._running.pop(run.order, None)
            for run in arrivals:
                if run.start_s >= now:
                    self._waiting[run.order] = run
            for run in starts:
                self._running[run.order] = run
                self._waiting.pop(run.order, None)
            started += len(starts)
            self._progress(started, len(self._runs))
            if self._waiting:
                events = len(ends) + len(arrivals) + (now in changes)
                yield from self._overtaken(now, starts, events)
                yield from self._idle(now)

    def _place(self, run: Run) -> tuple[int, int]:
        return self._rank(run.request), run.order

    def _idle(self, now: int) -> Iterator[Finding]:
        """Yield the first by rank, or under a scan every job, that fits and waits."""
        free = self._free(now, ())
        if self._scans:
            turn = [run for run in self._waiting.values() if run.request.nodes <= free]
        else:
            turn = [min(self._waiting.values(), key=self._place)]
        for run in turn:
            if run.order not in self._told and self._fits(run, now, ()):
                self._told.add(run.order)
                job, by = run.request.id, run.start_s - now
                if self._scans:
                    yield Finding("held-back", job, now, by, "fits, and does not start")
                else:
                    yield Finding("idle", job, now, by, "is first, fits, and does not start")

    def _overtaken(self, now: int, starts: Sequence[Run], events: int) -> Iterator[Finding]:
        """Yield jobs that started now before one that ranks higher, and waited already."""
        if not starts or (self._scans and events > 1):
            return
        waited = sorted(
            (run for run in self._waiting.values() if run.request.submit_s < now), key=self._place
        )
        for run in sorted(starts, key=self._place, reverse=True):
            for first in waited:
                if self._place(first) > self._place(run):
                    break
                later = [each for each in starts if self._place(each) > self._place(first)]
                if not self._scans or self._fits(first, now, later):
                    by = first.start_s - now
                    yield Finding(
                        "order", run.request.id, now, by, f"before job {first.request.id}"
                    )
                    break

    def _fits(self, run: Run, now: int, without: Sequence[Run]) -> bool:
        """Return whether a job could start now, if those of `without` had not."""
        wanted = run.request
        if wanted.nodes > self._free(now, without):
            return False
        if not self._blocked:
            return True
        room = Room(self._nodes)
        gone = {each.order for each in without}
        for each in self._running.values():
            if each.order not in gone:
                room.add(now, max(each.until_s, now + 1), -each.request.nodes)
        for blocked in self._blocked:
            room.add(blocked.start_s, blocked.end_s, -blocked.nodes)
        return room.earliest_s(wanted.nodes, wanted.requested_s, now) == now

    def _free(self, now: int, without: Sequence[Run]) -> int:
        taken = sum(run.request.nodes for run in self._running.values())
        kept = sum(each.nodes for each in self._blocked if each.start_s <= now < each.end_s)
        return self._nodes - taken - kept + sum(run.request.nodes for run in without)
