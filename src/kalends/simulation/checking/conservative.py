"""Conservative backfilling's promise: every job gets a reservation when it is submitted, never a later one.

The promises are made by these rules: at its submission a job gets the earliest room next to all that runs,
at its requested time, and all earlier reservations; at every end, each waiting job in order of submission
takes the earliest room there is for it, if that is not later than what it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from kalends.simulation.checking.findings import Blocked, Finding, Run
from kalends.simulation.checking.room import Room

_SUBMISSION, _END, _START = 0, 1, 2


def promises(
    runs: Sequence[Run], blocked: Sequence[Blocked], nodes: int
) -> Iterator[tuple[Run, int]]:
    """Yield jobs with the time at which they are to start; replays the actual starts.

    Each job when it is submitted, and once more if a second is over in which it was to start and did not.
    In a second submissions come first, then ends, in the order in which the runs began.
    """
    room = Room(nodes)
    for each in blocked:
        room.add(each.start_s, each.end_s, -each.nodes)
    events = [(run.request.submit_s, _SUBMISSION, run) for run in runs]
    events += [(run.end_s, _END, run) for run in runs]
    events += [(run.start_s, _START, run) for run in runs]
    events.sort(key=lambda event: event[0])
    starts: dict[int, list[Run]] = {}
    for run in runs:
        starts.setdefault(run.start_s, []).append(run)
    planned: dict[int, tuple[Run, int]] = {}
    held_back: set[int] = set()
    begun: dict[int, int] = {}

    def turn(event: tuple[int, int, Run]) -> tuple[int, int]:
        _, kind, run = event
        return kind, begun.get(run.order, len(runs)) if kind == _END else run.order

    for now, second in groupby(events, key=lambda event: event[0]):
        room.forget_before(now)
        for _, kind, run in sorted(second, key=turn):
            wanted = run.request
            if kind == _SUBMISSION:
                start_s = room.earliest_s(wanted.nodes, wanted.requested_s, now)
                yield run, start_s
                planned[run.order] = run, start_s
                room.add(start_s, start_s + wanted.requested_s, -wanted.nodes)
            elif kind == _END:
                room.add(now, run.until_s, wanted.nodes)
                _replace(room, planned, now)
            # Jobs that start otherwise than planned are noted at the end of the second.
            for starting in starts.get(now, ()) if kind == _END else [run]:
                _, start_s = planned.get(starting.order, (starting, -1))
                if kind == _START or start_s == now == starting.start_s or starting.start_s < now:
                    begun.setdefault(starting.order, len(begun))
                    if starting.order in planned:
                        _begin(room, planned, starting)
        for order, (run, start_s) in planned.items():
            if start_s <= now and order not in held_back:
                held_back.add(order)
                yield run, start_s


def late(runs: Sequence[Run], blocked: Sequence[Blocked], nodes: int) -> tuple[int, list[Finding]]:
    """Return the number of jobs that were to wait, and findings for late starts."""
    findings = []
    promised: dict[int, int] = {}
    for run, start_s in promises(runs, blocked, nodes):
        late_s = run.start_s - start_s
        if run.order not in promised:
            promised[run.order] = start_s
            if late_s > 0:
                said = f"was promised {start_s} when submitted, starts at {run.start_s}"
                findings.append(
                    Finding("promise", run.request.id, run.request.submit_s, late_s, said)
                )
        elif start_s < promised[run.order]:
            said = f"others ended early, and its place was moved up to {start_s}; starts at {run.start_s}"
            findings.append(Finding("held-back", run.request.id, start_s, late_s, said))
    waited = sum(promised[run.order] > run.request.submit_s for run in runs)
    return waited, findings


def _begin(room: Room, planned: dict[int, tuple[Run, int]], run: Run) -> None:
    """Note that a planned job has started when it really did."""
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
