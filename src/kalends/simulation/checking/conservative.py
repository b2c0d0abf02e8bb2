"""Conservative backfilling's promise: every job gets a reservation when it is submitted, never a later one.

The promises are made by these rules: at its submission a job gets the earliest room next to all that runs,
at its requested time, and all earlier reservations; at every end, each waiting job in order of submission
takes the earliest room there is for it, if that is not later than what it has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kalends.core.limits import TIME_S_MAX
from kalends.simulation.checking.findings import Blocked, Finding, Progress, Run, untold
from kalends.simulation.checking.room import Room
from kalends.simulation.checking.ticks import SECONDS, Ticks

Times = tuple[int, int]
NOTHING: Final[Times] = (TIME_S_MAX, -TIME_S_MAX)


def _both(times: Times, start_s: int, end_s: int) -> Times:
    return min(times[0], start_s), max(times[1], end_s)


class _ReplayedPlan:
    """The plan during the replay of a schedule: reserved starts of waiting jobs, and jobs that have begun."""

    def __init__(self, blocked: Sequence[Blocked], nodes: int) -> None:
        self.room = Room(nodes)
        for each in blocked:
            self.room.add(each.start_s, each.end_s, -each.nodes)
        self.planned: dict[int, tuple[Run, int]] = {}
        """Jobs that wait, in order of submission, and their reserved starts."""
        self._turns: dict[int, int] = {}
        self._reservations = 0
        self._begun: dict[int, int] = {}
        self._freed = NOTHING
        """From when and until when something has become free since all were looked at last."""

    def submit(self, run: Run, now: int) -> int:
        """Reserve a start for the job, and return it."""
        wanted = run.request
        start_s = self.room.earliest_s(wanted.nodes, wanted.requested_s, now)
        self.room.add(start_s, start_s + wanted.requested_s, -wanted.nodes)
        self._reserve(run, start_s)
        return start_s

    def end(self, runs: Iterable[Run], now: int) -> None:
        """End jobs, in the order in which they have begun, and let others move up after each."""
        for run in sorted(runs, key=lambda run: self._begun[run.order]):
            if run.until_s > now:
                self._free(now, run.until_s, run.request.nodes)
            self._move_up(now)

    def begin(self, runs: Iterable[Run], now: int) -> None:
        """Begin jobs, first whose start was reserved first, wherever they were planned."""
        never = self._reservations + 1
        for run in sorted(runs, key=lambda run: (self._turns.get(run.order, never), run.order)):
            self._begun[run.order] = len(self._begun)
            if run.order not in self.planned:
                continue
            _, start_s = self.planned.pop(run.order)
            if start_s != now:
                wanted = run.request
                self._free(start_s, start_s + wanted.requested_s, wanted.nodes)
                self.room.add(now, run.until_s, -wanted.nodes)

    def _free(self, start_s: int, end_s: int, nodes: int) -> None:
        self.room.add(start_s, end_s, nodes)
        self._freed = _both(self._freed, start_s, end_s)

    def _move_up(self, now: int) -> None:
        """Let each that waits move to an earlier start, if there is one.

        It had none when all were looked at last; so an earlier one has to touch what was freed since then.
        """
        (from_s, until_s), self._freed = self._freed, NOTHING
        if from_s >= until_s:
            return
        most = self.room.most(now, until_s)
        least = min((run.request.nodes for run, _ in self.planned.values()), default=1)
        # A schedule that starts others than those whose turn it is can have more planned than there is.
        earlier = self.room.earlier_s if self.room.least() >= 0 else self.room.earlier_without_s
        for run, start_s in list(self.planned.values()):
            nodes, length_s = run.request.nodes, run.request.requested_s
            if nodes > most or start_s <= from_s:
                continue
            first_s = max(now, from_s - length_s + 1)
            earlier_s = earlier(nodes, length_s, start_s, first_s, until_s)
            if earlier_s < start_s:
                self._reserve(run, earlier_s)
                self.room.move(nodes, length_s, start_s, earlier_s)
                self._freed = _both(self._freed, start_s, start_s + length_s)
                from_s, until_s = _both((from_s, until_s), start_s, start_s + length_s)
                if earlier_s <= from_s:
                    # Others have taken what was free from there on: nothing is left of it for anybody.
                    from_s = self.room.first_s(least, from_s)
                most = TIME_S_MAX

    def _reserve(self, run: Run, start_s: int) -> None:
        self.planned[run.order] = run, start_s
        self._reservations += 1
        self._turns[run.order] = self._reservations


def promises(
    runs: Sequence[Run], blocked: Sequence[Blocked], nodes: int, progress: Progress = untold
) -> Iterator[tuple[Run, int]]:
    """Yield jobs with the time at which they are to start; replays the actual starts.

    Each job when it is submitted, and once more if a second is over in which it was to start and did not.
    In a second submissions come first, then ends, in the order in which the runs began, then starts; of
    these that is first whose start was reserved first, as in pyss.
    """
    submitted, ended, begun = (defaultdict[int, list[Run]](list) for _ in range(3))
    for run in runs:
        submitted[run.request.submit_s].append(run)
        ended[run.end_s].append(run)
        begun[run.start_s].append(run)
    replay = _ReplayedPlan(blocked, nodes)
    held_back: set[int] = set()
    looked_at = 0
    for now in sorted({*submitted, *ended, *begun}):
        replay.room.forget_before(now)
        for run in submitted.get(now, ()):
            yield run, replay.submit(run, now)
        replay.end(ended.get(now, ()), now)
        replay.begin(begun.get(now, ()), now)
        looked_at += len(begun.get(now, ()))
        progress(looked_at, len(runs))
        for order, (run, start_s) in replay.planned.items():
            if start_s <= now and order not in held_back:
                held_back.add(order)
                yield run, start_s


def late(
    runs: Sequence[Run],
    blocked: Sequence[Blocked],
    nodes: int,
    progress: Progress = untold,
    ticks: Ticks = SECONDS,
) -> tuple[int, list[Finding]]:
    """Return the number of jobs that were to wait, and findings for late starts."""
    findings = []
    promised: dict[int, int] = {}
    for run, start_s in promises(runs, blocked, nodes, progress):
        late_s = run.start_s - start_s
        if run.order not in promised:
            promised[run.order] = start_s
            if late_s > 0:
                said = f"was promised {ticks.seconds(start_s)} when submitted, "
                said += f"starts at {ticks.seconds(run.start_s)}"
                findings.append(
                    Finding("promise", run.request.id, run.request.submit_s, late_s, said)
                )
        elif start_s < promised[run.order]:
            said = f"others ended early, and its place was moved up to {ticks.seconds(start_s)}; "
            said += f"starts at {ticks.seconds(run.start_s)}"
            findings.append(Finding("held-back", run.request.id, start_s, late_s, said))
    waited = sum(promised[run.order] > run.request.submit_s for run in runs)
    return waited, findings
