"""The gate before the runners of a site: a job that starts at most once waits here for its broker's word.

One that may start again elsewhere does, too, each time.

Its queue has given it nodes, and has asked for its start: until the word comes, nothing of it runs. If it is
to end before that, its attempt never was. After a restart of the site the queue asks anew.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from kalends.batch.place_keys import GONE, place_of_job
from kalends.batch.queue.effects import Action, LookUp, Relimit, Start
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue
from kalends.core.errors import NotFound, Unavailable
from kalends.resource_servers.participation.effects import StartWord
from kalends.resource_servers.participation.placed_jobs.start_questions import StartQuestions
from kalends.resource_servers.service import SiteEngine

LATE_S: Final = 30
"""A word that comes later lets a job start at its next turn only."""

WAITS: Final = "waits for its broker, which knows whether it has started elsewhere"

Step = Callable[[BatchQueue, int], None]


class StartGate:
    """Passes on to `carry_out` what may be done; `report` does a step with a queue. It lives as they do."""

    def __init__(
        self,
        engine: SiteEngine,
        starts: StartQuestions,
        queues: Mapping[str, BatchQueue],
        carry_out: Callable[[str, Sequence[Action]], None],
        report: Callable[[str, Step], None],
    ) -> None:
        self._engine, self._starts = engine, starts
        self._queues = queues
        self._carry_out = carry_out
        self._report = report
        self._waiting: dict[str, tuple[str, Start]] = {}
        """The machine and the start that wait for a word, by request."""
        self._loop = asyncio.get_running_loop()

    def carry_out(self, machine: str, actions: Sequence[Action]) -> None:
        """Begin what a queue has decided, but for starts that need a word."""
        passed = [each for each in actions if self._passes(machine, each)]
        if passed:
            self._carry_out(machine, passed)

    def _passes(self, machine: str, action: Action) -> bool:
        job = action.job
        rid = place_of_job(machine, job).rid if job.request.at_most_once else ""
        if not rid or isinstance(action, LookUp):
            return True
        if isinstance(action, Start):
            self._waiting[rid] = (machine, action)
            self._loop.call_soon(self._ask, rid)
            return False
        waits = self._waiting.get(rid)
        if waits is None or waits[1].attempt != action.attempt:
            return True
        if not isinstance(action, Relimit):
            del self._waiting[rid]
            never = partial(void, number=job.number, attempt=action.attempt)
            self._loop.call_soon(self._report, machine, never)
        return False

    def _ask(self, rid: str) -> None:
        with contextlib.suppress(Unavailable):  # The next life asks anew.
            self._engine.apply(lambda site, now: self._starts.ask(rid, now))

    def said(self, words: Iterable[StartWord]) -> None:
        """Let a job start, or end it where it waits: it starts elsewhere, or nowhere."""
        for word in words:
            if word.says == "start":
                machine, start = self._waiting.pop(word.rid, ("", None))
                if start is not None:
                    self._report(machine, partial(self._let_start, machine=machine, start=start))
                continue
            for name, queue in self._queues.items():
                for job in [*queue.flow.table]:
                    if job.request.at_most_once and place_of_job(name, job).rid == word.rid:
                        self._report(name, partial(_end, number=job.number, why=_why(word)))

    def _let_start(self, queue: BatchQueue, now: int, *, machine: str, start: Start) -> None:
        """Start the job; plan it again if it has waited for long, because its nodes may soon be others'."""
        if now - start.job.asked_s > LATE_S:
            queue.void(start.job.number, start.attempt, now)
        else:
            self._carry_out(machine, (start,))

    def over(self, machine: str, job: BatchJob) -> None:
        """Use up the only start of a job that was ended before it: no other site is to start it later."""
        rid = place_of_job(machine, job).rid if job.request.at_most_once else ""
        if rid and not job.begun_attempt:
            self._loop.call_soon(self._ask, rid)

    def words(self, machine: str, job: BatchJob) -> str:
        """Return what a job waits for here; "" if it does not."""
        waits = any(
            (machine, job.number) == (at, start.job.number) for at, start in self._waiting.values()
        )
        return WAITS if waits else ""


def void(queue: BatchQueue, now: int, *, number: int, attempt: int) -> None:
    queue.void(number, attempt, now)


def _end(queue: BatchQueue, now: int, *, number: int, why: str) -> None:
    """End a job that has not begun; one that has needs no word any more."""
    try:
        job = queue.job(number)
    except NotFound:
        return
    if not job.begun_attempt:
        queue.cancel(number, why, now)


def _why(word: StartWord) -> str:
    if word.says == "elsewhere":
        return f"it has started at {word.at}" if word.at else "it has started elsewhere"
    if word.says == "unknown":
        return "its broker was restored from a backup, and the job may have started elsewhere"
    return GONE
