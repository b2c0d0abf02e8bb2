"""The gate before the runners for parts of jobs in step: each waits there until all parts have their nodes.

Its queue has given a part its nodes, in the second in which its slot begins. The site tells the broker where
they are, and nothing of the part runs until the broker says where all are. A part for which the others do
not come in time is ended, and with it the others. After a restart of the site the queue asks anew.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Action, LookUp, Relimit, Start
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue
from kalends.core.durations import format_duration
from kalends.core.errors import KalendsError, NotFound, Unavailable
from kalends.core.steps import StepPart, is_key_of_part, variables_of_part
from kalends.resource_servers.participation.effects import StartWord
from kalends.resource_servers.service import SiteEngine

WAIT_S: Final = 120
"""So long a part that says nothing waits for the others: clocks differ, and servers start again."""

WAITS: Final = "its other parts do not have their nodes yet"
MISSED: Final = "its other parts did not have their nodes within {}"
MOVED: Final = "its other parts were told of other nodes, for it has been started again since"

Step = Callable[[BatchQueue, int], None]
Seat = tuple[str, int]
"""A machine, and the number of the job there."""


@dataclass(slots=True)
class _Waiting:
    """A start that waits for the others of the request `rid`; `part` is told of it."""

    start: Start
    late: asyncio.TimerHandle
    rid: str = ""
    part: StepPart | None = None


class StepGate:
    """Passes on to `carry_out` what may be done; `report` does a step with a queue. It lives as they do.

    `hosts` tells where the nodes of a start are; it raises as what carries it out would.
    """

    def __init__(
        self,
        engine: SiteEngine,
        queues: Mapping[str, BatchQueue],
        carry_out: Callable[[str, Sequence[Action]], None],
        hosts: Callable[[str, Start], tuple[str, ...]],
        report: Callable[[str, Step], None],
    ) -> None:
        self._engine = engine
        self._queues = queues
        self._carry_out = carry_out
        self._hosts = hosts
        self._report = report
        self._waiting: dict[Seat, _Waiting] = {}
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        for each in self._waiting.values():
            each.late.cancel()

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
            wait_s = action.job.request.parts_wait_s or WAIT_S
            missed = MISSED.format(format_duration(wait_s))
            late = self._loop.call_later(wait_s, self._end, seat, missed)
            self._waiting[seat] = _Waiting(action, late)
            self._loop.call_soon(self._come, seat)
            return False
        waits = self._waiting.get(seat)
        if waits is None or waits.start.attempt != action.attempt:
            return True
        if not isinstance(action, Relimit):
            self._leave(seat)
            never = partial(_void, number=action.job.number, attempt=action.attempt)
            self._loop.call_soon(self._report, machine, never)
        return False

    def _come(self, seat: Seat) -> None:
        """Tell where the nodes of a part are, with all other parts here that have theirs."""
        waits, machine = self._waiting.get(seat), seat[0]
        if waits is None:
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
        parts = tuple(
            each.part
            for each in self._waiting.values()
            if each.rid == rid and each.part is not None
        )
        with contextlib.suppress(Unavailable):  # The next life asks anew.
            self._engine.apply(lambda site, now: site.starts.ask(rid, now, parts))

    def said(self, words: Iterable[StartWord]) -> None:
        """Let the parts here start with all others; what cannot be in step any more is ended."""
        for word in words:
            for seat, waits in [*self._waiting.items()]:
                if waits.part is None or waits.rid != word.rid:
                    continue
                if word.says == "start" and waits.part in word.parts:
                    self._leave(seat)
                    self._let_start(seat[0], waits.start, word.parts)
                elif word.says == "start":
                    self._end(seat, MOVED)
                elif request_of(self._queues[seat[0]], waits.start.job) not in ("", word.rid):
                    self._come(seat)  # Its reservation was changed since it has asked.
                else:
                    self._end(seat, "its reservation was cancelled")

    def _let_start(self, machine: str, start: Start, parts: tuple[StepPart, ...]) -> None:
        try:
            said = variables_of_part(parts, machine)
        except KalendsError as error:
            self._not_started(machine, start, error)
            return
        together = Start(start.job, start.attempt, start.nodes, said)
        self._report(machine, lambda queue, now: self._carry_out(machine, (together,)))

    def _not_started(self, machine: str, start: Start, error: KalendsError) -> None:
        ending = f.JobEnding(kind="not-started", detail=str(error)[:500])
        number, attempt = start.job.number, start.attempt
        self._report(machine, lambda queue, now: queue.ended(number, attempt, ending, now))

    def _end(self, seat: Seat, why: str) -> None:
        machine, number = seat
        self._report(machine, partial(_cancel, number=number, why=why))

    def _leave(self, seat: Seat) -> None:
        self._waiting.pop(seat).late.cancel()

    def words(self, machine: str, job: BatchJob) -> str:
        """Return what a job waits for here; "" if it does not."""
        return WAITS if (machine, job.number) in self._waiting else ""


def request_of(queue: BatchQueue, job: BatchJob) -> str:
    """Return the request that has a slot for a part, whatever has changed it; "" where that is over."""
    whose = (job.request.reservation, job.principal.user)
    for claim in queue.flow.claims().values():
        if (claim.reservation, claim.user) == whose and claim.end > queue.last_s:
            return claim.request or claim.reservation
    return ""


def _void(queue: BatchQueue, now: int, *, number: int, attempt: int) -> None:
    queue.void(number, attempt, now)


def _cancel(queue: BatchQueue, now: int, *, number: int, why: str) -> None:
    with contextlib.suppress(NotFound):
        queue.cancel(number, why, now)
