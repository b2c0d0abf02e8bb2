"""Work outside of the machine: runs of agents, and visits that were relayed to near sites.

Each has a number by which its end comes back, and a deadline; what has no end by then has failed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kalends.agents.runs import RunOutcome, ScriptRun
from kalends.contract import messages as m
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.effects import Relay, RunTask
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.this_site import FenceNumbers

RUNS_MAX: Final = 256
"""Runs of all users at once, each with up to a megabyte: beyond it a visit gets the default choice."""

LATE: Final = RunOutcome("killed", detail="the run did not end in time")


@dataclass(eq=False)
class RunTable:
    """Runs and relays by number, with the continuation of each."""

    outbox: ParticipantOutbox
    numbers: FenceNumbers
    settle: Callable[[Moment], None]
    """Ends the step: what it has freed finds takers."""
    _errands: dict[int, Callable[[RunOutcome, Moment], None]] = field(
        init=False, default_factory=dict
    )
    _user_of: dict[int, str] = field(init=False, default_factory=dict)
    """The user of each run that is under way."""
    _relays: dict[int, Callable[[m.SiteReport | None], None]] = field(
        init=False, default_factory=dict
    )
    _deadlines: list[tuple[int, int]] = field(init=False, default_factory=list)
    """Heap of ``(at_ms, number)``; those that have ended do no harm."""

    @property
    def running(self) -> int:
        """The number of agents that run."""
        return len(self._errands)

    def has_room(self, user: str) -> bool:
        """Whether an agent of `user` may run with the others: no user's only run is kept out by a crowd."""
        if self.running < RUNS_MAX:
            return True
        return self.running < 2 * RUNS_MAX and user not in self._user_of.values()

    def set_out(
        self, rid: str, job: ScriptRun, now: Moment, ms_max: int,
        then: Callable[[int, RunOutcome, Moment], None],
    ) -> int:  # fmt: skip
        """Have `job` run for `rid`; `then` gets its number, and its outcome or its timeout."""
        number = self.numbers.new()
        self._errands[number] = lambda outcome, now: then(number, outcome, now)
        self._user_of[number] = job.user
        self._end_by(number, now.monotonic_ms + ms_max)
        self.outbox.run(RunTask(number, rid, job))
        return number

    def pass_on(
        self, site: str, dispatch: m.Dispatch, now: Moment, ms_max: int,
        then: Callable[[int, m.SiteReport | None], None],
    ) -> int:  # fmt: skip
        """Relay `dispatch` to `site`; `then` gets its number, and the report or None."""
        number = self.numbers.new()
        self._relays[number] = lambda report: then(number, report)
        self._end_by(number, now.monotonic_ms + ms_max)
        self.outbox.relay(Relay(number, site, dispatch))
        return number

    def errand_done(self, number: int, outcome: RunOutcome, now: Moment) -> None:
        """Take the outcome of a run; one that is not awaited any more changes nothing."""
        self._user_of.pop(number, None)
        then = self._errands.pop(number, None)
        if then is not None:
            then(outcome, now)
            self.settle(now)

    def relayed(self, number: int, report: m.SiteReport | None, now: Moment) -> None:
        """Take the report of a near site, or None when there is none."""
        then = self._relays.pop(number, None)
        if then is not None:
            then(report)
            self.settle(now)

    def drop(self, number: int) -> None:
        """Forget a run or a relay: its end changes nothing."""
        self._user_of.pop(number, None)
        self._errands.pop(number, None)
        self._relays.pop(number, None)

    def advance(self, now: Moment) -> None:
        """End those whose time is over; each may begin others."""
        while self._deadlines and self._deadlines[0][0] <= now.monotonic_ms:
            _, number = heapq.heappop(self._deadlines)
            self.errand_done(number, LATE, now)
            self.relayed(number, None, now)

    def next_deadline_ms(self) -> int | None:
        waited = self._deadlines
        while waited and waited[0][1] not in self._errands and waited[0][1] not in self._relays:
            heapq.heappop(waited)
        return waited[0][0] if waited else None

    def _end_by(self, number: int, at_ms: int) -> None:
        heapq.heappush(self._deadlines, (at_ms, number))
