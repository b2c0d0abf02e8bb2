"""Conservative backfilling's promise: every job gets a reservation when it is submitted, never a later one.

The promises are made by these rules: at its submission a job gets the earliest room beside all that runs,
at its requested time, and all earlier reservations; at every end, each waiting job in order of submission
takes the earliest room there is for it, if that is not later than what it has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from kalends.simulation.checking.findings import Blocked, Finding, Run

_SUBMISSION, _END, _START = 0, 1, 2


class Room:
    """Free nodes as steps over time; the last one never ends."""

    def __init__(self, nodes: int) -> None:
        self.times = [-1]
        self.free = [nodes]

    def add(self, start_s: int, end_s: int, nodes: int) -> None:
        """Give back `nodes` during ``[start_s, end_s)``; negative ones are taken."""
        if start_s < end_s:
            first, last = self._step(start_s), self._step(end_s)
            for at in range(first, last):
                self.free[at] += nodes

    def forget_before(self, now: int) -> None:
        """What is over need not be kept."""
        at = bisect_right(self.times, now) - 1
        if at > 0:
            del self.times[:at], self.free[:at]

    def earliest_s(self, nodes: int, length_s: int, now: int) -> int:
        """The first time from which `nodes` are free for `length_s`."""
        times, free = self.times, self.free
        start_s = now
        at = bisect_right(times, now) - 1
        while at < len(times) and times[at] < start_s + length_s:
            at += 1
            if free[at - 1] < nodes:
                start_s = times[at]
        return start_s

    def _step(self, time_s: int) -> int:
        at = bisect_right(self.times, time_s) - 1
        if self.times[at] == time_s:
            return at
        self.times.insert(at + 1, time_s)
        self.free.insert(at + 1, self.free[at])
        return at + 1


def first_promises(
    runs: Sequence[Run], blocked: Sequence[Blocked], nodes: int
) -> Iterator[tuple[Run, int]]:
    """Every job with the time it was promised when it was submitted; replays the starts that were."""
    room = Room(nodes)
    for each in blocked:
        room.add(each.start_s, each.end_s, -each.nodes)
    events = [(run.request.submit_s, _SUBMISSION, run.order, run.order, run) for run in runs]
    events += [(run.end_s, _END, run.start_s, run.order, run) for run in runs]
    events += [(run.start_s, _START, run.order, run.order, run) for run in runs]
    events.sort(key=lambda event: event[:4])
    starts: dict[int, list[Run]] = {}
    for run in runs:
        starts.setdefault(run.start_s, []).append(run)
    planned: dict[int, tuple[Run, int]] = {}
    for now, kind, _, _, run in events:
        room.forget_before(now)
        wanted = run.request
        if kind == _SUBMISSION:
            start_s = room.earliest_s(wanted.nodes, wanted.requested_s, now)
            yield run, start_s
            planned[run.order] = run, start_s
            room.add(start_s, start_s + wanted.requested_s, -wanted.nodes)
        elif kind == _END:
            room.add(now, run.until_s, wanted.nodes)
            _replace(room, planned, now)
        # Whoever starts otherwise than planned is taken note of when the second is over.
        overdue = kind == _START or run.start_s < now
        for starting in [run] if overdue else starts.get(now, ()):
            if starting.order in planned and (overdue or planned[starting.order][1] == now):
                _begin(room, planned, starting)


def late(runs: Sequence[Run], blocked: Sequence[Blocked], nodes: int) -> tuple[int, list[Finding]]:
    """How many jobs were promised a later time than their submission, and those that started too late."""
    waited = 0
    findings = []
    for run, promised_s in first_promises(runs, blocked, nodes):
        waited += promised_s > run.request.submit_s
        if run.start_s > promised_s:
            said = f"was promised {promised_s} when submitted, starts at {run.start_s}"
            late_s = run.start_s - promised_s
            findings.append(Finding("promise", run.request.id, run.request.submit_s, late_s, said))
    return waited, findings


def _begin(room: Room, planned: dict[int, tuple[Run, int]], run: Run) -> None:
    """A planned job has started when it really did."""
    _, start_s = planned.pop(run.order)
    if start_s != run.start_s:
        wanted = run.request
        room.add(start_s, start_s + wanted.requested_s, wanted.nodes)
        room.add(run.start_s, run.until_s, -wanted.nodes)


def _replace(room: Room, planned: dict[int, tuple[Run, int]], now: int) -> None:
    for order, (run, start_s) in planned.items():
        wanted = run.request
        room.add(start_s, start_s + wanted.requested_s, wanted.nodes)
        earlier_s = min(room.earliest_s(wanted.nodes, wanted.requested_s, now), start_s)
        room.add(earlier_s, earlier_s + wanted.requested_s, -wanted.nodes)
        planned[order] = run, earlier_s
