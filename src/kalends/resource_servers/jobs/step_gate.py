"""The gate before the runners for parts of jobs in step: each waits there until all parts have their nodes.

Its queue has given a part its nodes, in the second in which its slot begins. The site tells the broker where
they are. Nothing of the part runs until the broker says where all are, and when they start. If the others do
not come in time, or the part is to end, the site asks the broker to have none start. Until that is answered,
the part keeps its nodes: all may have been told to start. It gives them up by itself only when its slot ends.
After a restart of the site the queue asks anew.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Action, Kill, LookUp, Relimit, Start
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue
from kalends.core.durations import format_duration
from kalends.core.errors import KalendsError, NotFound, Unavailable
from kalends.core.steps import StepPart, is_key_of_part, variables_of_part
from kalends.resource_servers.jobs.start_gate import Step, void
from kalends.resource_servers.participation.effects import StartWord
from kalends.resource_servers.participation.placed_jobs.start_questions import StartQuestions
from kalends.resource_servers.service import SiteEngine

WAIT_S: Final = 120
"""So long a part that says nothing waits for the others: clocks differ, and servers start again."""

WAITS: Final = "its other parts do not have their nodes yet"
STARTS: Final = "all parts have their nodes, and start together in a few seconds"
ASKS: Final = "it has waited its full time: its broker is asked whether the other parts start"
MISSED: Final = "its other parts did not have their nodes within {}"
MOVED: Final = "it was started again on other nodes than its other parts know"
OVER: Final = "another part does not start, or its reservation was cancelled"

Seat = tuple[str, int]
"""A machine, and the number of the job there."""


@dataclass(slots=True)
class _Waiting:
    """A start that waits for the others of the request `rid`; `part` is told of it."""

    start: Start
    late: asyncio.TimerHandle
    """When it has waited for long enough; when it starts, once it may."""
    slot_end: asyncio.TimerHandle
    rid: str = ""
    part: StepPart | None = None
    gives_up: str = ""
    """Why it waits no longer."""
    kill: Kill | None = None
    """Its user, or an operator, has ended it: that is done when it is known whether the others start."""
    together: tuple[StepPart, ...] = ()
    """All parts, once they start."""
    decided: bool = False
    """It is known that it does not start with the others."""


class StepGate:
    """Passes on to `carry_out` what may be done; `report` does a step with a queue. It lives as they do.

    `hosts` tells where the nodes of a start are; it raises as what carries it out would.
    """

    def __init__(
        self,
        engine: SiteEngine,
        starts: StartQuestions,
        queues: Mapping[str, BatchQueue],
        carry_out: Callable[[str, Sequence[Action]], None],
        hosts: Callable[[str, Start], tuple[str, ...]],
        report: Callable[[str, Step], None],
    ) -> None:
        self._engine, self._starts = engine, starts
        self._queues = queues
        self._carry_out = carry_out
        self._hosts = hosts
        self._report = report
        self._waiting: dict[Seat, _Waiting] = {}
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        for each in self._waiting.values():
            each.late.cancel()
            each.slot_end.cancel()

    def carry_out(self, machine: str, actions: Sequence[Action]) -> None:
        """Begin what a queue has decided, but for parts that wait for others."""
        passed = [each for each in actions if self._passes(machine, each)]
        if passed:
            self._carry_out(machine, passed)

    def _passes(self, machine: str, action: Action) -> bool:
        if not is_key_of_part(action.job.key) or isinstance(action, LookUp):
            return True
        seat = (machine, action.job.number)
        if isinstance(action, Start):
            self._wait(seat, action)
            return False
        waits = self._waiting.get(seat)
        if waits is None or waits.start.attempt != action.attempt:
            return True
        if isinstance(action, Kill) and self._has_to_ask(machine, waits):
            waits.kill = action
            if not waits.together:
                self._loop.call_soon(self._come, seat)
        elif not isinstance(action, Relimit):
            self._loop.call_soon(self._void, seat)
        return False

    def _wait(self, seat: Seat, start: Start) -> None:
        job = start.job
        late = self._loop.call_later(
            job.request.parts_wait_s or WAIT_S, self._waited_enough, seat, start
        )
        slot_s = max(job.until_s - job.asked_s, 0)
        slot_end = self._loop.call_later(slot_s, self._slot_ends, seat, start)
        self._waiting[seat] = _Waiting(start, late, slot_end)
        self._loop.call_soon(self._come, seat)

    def _has_to_ask(self, machine: str, waits: _Waiting) -> bool:
        """Whether the other parts may still get the order to start, while this part is only asked to end.

        One whose reservation is cancelled, or that is to have other nodes, is not counted on any more.
        """
        job = waits.start.job
        return not waits.decided and job.unwanted and bool(request_of(self._queues[machine], job))

    def _waited_enough(self, seat: Seat, start: Start) -> None:
        waits = self._waiting.get(seat)
        if waits is not None and waits.start is start:
            wait_s = start.job.request.parts_wait_s or WAIT_S
            waits.gives_up = MISSED.format(format_duration(wait_s))
            self._come(seat)

    def _slot_ends(self, seat: Seat, start: Start) -> None:
        waits = self._waiting.get(seat)
        if waits is not None and waits.start is start:
            self._report(seat[0], partial(self._look_at_slot, seat=seat, waits=waits))

    def _look_at_slot(self, queue: BatchQueue, now: int, *, seat: Seat, waits: _Waiting) -> None:
        """End what waits where its slot is over; that may have been made longer meanwhile."""
        left_s = waits.start.job.until_s - now
        if left_s > 0:
            waits.slot_end = self._loop.call_later(left_s, self._slot_ends, seat, waits.start)
        else:
            self._loop.call_soon(self._void, seat)

    def _come(self, seat: Seat) -> None:
        """Tell where the nodes of a part are, with all other parts here that have theirs."""
        waits, machine = self._waiting.get(seat), seat[0]
        if waits is None or waits.decided:
            return
        job = waits.start.job
        rid = request_of(self._queues[machine], job)
        try:
            hosts = tuple(dict.fromkeys(self._hosts(machine, waits.start)))
        except KalendsError as error:
            self._leave(seat)
            self._not_started(machine, waits.start, error)
            return
        waits.rid, waits.part = rid, StepPart(machine, job.number, hosts)
        here = [each for each in self._waiting.values() if each.rid == rid]
        parts = tuple(each.part for each in here if each.part is not None)
        gives_up = any(each.gives_up or each.kill is not None for each in here)
        with contextlib.suppress(Unavailable):  # The next life asks anew.
            self._engine.apply(
                lambda site, now: self._starts.ask(rid, now, parts, gives_up=gives_up)
            )

    def said(self, words: Iterable[StartWord]) -> None:
        """Let the parts here start with all others; end those that can no longer be in step."""
        for word in words:
            for seat, waits in [*self._waiting.items()]:
                if waits.part is None or waits.rid != word.rid or waits.decided:
                    continue
                if word.says == "start" and waits.part in word.parts:
                    self._let_start(seat, waits, word)
                elif word.says == "start":
                    self._end(seat, waits, MOVED)
                elif request_of(self._queues[seat[0]], waits.start.job) not in ("", word.rid):
                    self._come(seat)  # Its reservation was changed since it has asked.
                else:
                    self._end(seat, waits, waits.gives_up or OVER)

    def _let_start(self, seat: Seat, waits: _Waiting, word: StartWord) -> None:
        """Start with the others; the first answer stands."""
        if not waits.together:
            waits.together = word.parts
            waits.late.cancel()
            waits.late = self._loop.call_later(word.in_ms / 1_000, self._start, seat, waits)

    def _start(self, seat: Seat, waits: _Waiting) -> None:
        machine, start = seat[0], waits.start
        if self._waiting.get(seat) is not waits:
            return
        self._leave(seat)
        try:
            said = variables_of_part(waits.together, machine)
        except KalendsError as error:
            self._not_started(machine, start, error)
            return
        actions: list[Action] = [Start(start.job, start.attempt, start.nodes, said)]
        if waits.kill is not None:
            actions.append(waits.kill)
        self._report(machine, lambda queue, now: self._carry_out(machine, actions))

    def _not_started(self, machine: str, start: Start, error: KalendsError) -> None:
        ending = f.JobEnding(kind="not-started", detail=str(error)[:500])
        number, attempt = start.job.number, start.attempt
        self._report(machine, lambda queue, now: queue.ended(number, attempt, ending, now))

    def _end(self, seat: Seat, waits: _Waiting, why: str) -> None:
        waits.decided = True
        if waits.kill is not None:
            self._void(seat)
        else:
            self._report(seat[0], partial(_cancel, number=seat[1], why=why))

    def _void(self, seat: Seat) -> None:
        """Let an attempt never have been."""
        waits = self._waiting.get(seat)
        if waits is not None:
            self._leave(seat)
            attempt = waits.start.attempt
            self._report(seat[0], partial(void, number=seat[1], attempt=attempt))

    def _leave(self, seat: Seat) -> None:
        waits = self._waiting.pop(seat)
        waits.late.cancel()
        waits.slot_end.cancel()

    def words(self, machine: str, job: BatchJob) -> str:
        """Return what a job waits for here; "" if it does not."""
        waits = self._waiting.get((machine, job.number))
        if waits is None:
            return ""
        if waits.together:
            return STARTS
        return ASKS if waits.gives_up else WAITS


def request_of(queue: BatchQueue, job: BatchJob) -> str:
    """Return the request that has a slot for a part, whatever has changed it; "" where that is over."""
    whose = (job.request.reservation, job.principal.user)
    for claim in queue.flow.claims().values():
        if (claim.reservation, claim.user) == whose and claim.end > queue.last_s:
            return claim.request or claim.reservation
    return ""


def _cancel(queue: BatchQueue, now: int, *, number: int, why: str) -> None:
    with contextlib.suppress(NotFound):
        queue.cancel(number, why, now)
