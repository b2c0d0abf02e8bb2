"""Predicted starts of waiting jobs, and sizes that fit now, computed from the queue's journal.

A prediction runs a frozen copy of the scheduler on until all waiting jobs have begun, which takes long
where thousands wait. So a `follower` does it when somebody wants to know. It may use a fifth of a core;
meanwhile what it said last is told.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, get_args

import msgspec

from kalends.batch.follower import STORE_URL, Foreseen, Question, Span
from kalends.batch.journal.contract import StoredState
from kalends.core.errors import Unavailable
from kalends.serving.answering_child import AnsweringChild
from kalends.serving.configuration import StorePlace
from kalends.serving.logs import Logger

REST: Final = 4.0
"""After each answer the follower rests so many times as long as that took."""

ANSWER_S_MAX: Final = 600.0
"""A follower that has not answered by then is ended: it may run a policy of the owner's own."""

FAILURES: Final = (OSError, EOFError, TimeoutError, msgspec.DecodeError)


@dataclass
class _Asked:
    """Answer of the follower to one question about one queue."""

    said: Foreseen = field(default_factory=Foreseen)
    rests_until_s: float = 0.0
    asking: asyncio.Task[None] | None = None


class Forecaster:
    """Predictions for all queues of a site, whose facts are in `store`."""

    def __init__(self, store: StorePlace, machines: Iterable[str], logger: Logger) -> None:
        arguments = [str(store.path)] if store.path is not None else []
        environment = {STORE_URL: store.url} if store.url else {}
        self._follower = AnsweringChild("kalends.batch.follower", *arguments, **environment)
        self._logger = logger
        self._asked = {
            (question, machine): _Asked() for machine in machines for question in get_args(Question)
        }
        self._turn = asyncio.Lock()
        self._pricing = False
        self._prices_rest_until_s = 0.0

    async def close(self) -> None:
        """End the follower; who asks is told what was known."""
        for asked in self._asked.values():
            if asked.asking is not None:
                asked.asking.cancel()
        await self._follower.close()

    async def foreseen(
        self, question: Question, machine: str, number: int, wait_s: float
    ) -> Foreseen:
        """Return an answer; one as of fact `number` if it comes in time, else the last one, if any."""
        asked = self._asked[question, machine]
        if asked.said.known >= number:
            return asked.said
        if asked.asking is None and _now_s() >= asked.rests_until_s:
            asked.asking = asyncio.create_task(self._ask(question, machine, asked))
        if asked.asking is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(asked.asking), wait_s)
        return asked.said

    async def delays(self, machine: str, spans: Sequence[Span]) -> Foreseen:
        """Return by how much each of `spans` would delay the jobs that wait; one caller at a time is heard.

        Raises `Unavailable` while it rests, and when the follower is lost.
        """
        now_s = _now_s()
        if self._pricing or now_s < self._prices_rest_until_s:
            raise _later("too many requests for the cost of a start are under way")
        self._pricing = True
        try:
            async with self._turn:
                said = await self._answer(
                    f"delays {machine} {msgspec.json.encode(list(spans)).decode()}"
                )
        except FAILURES as error:
            self._lost(machine, error)
            raise _later("the cost of a start is not known at present") from error
        finally:
            self._pricing = False
            self._prices_rest_until_s = _now_s() + (_now_s() - now_s)
        if said.error:
            self._logger.warning("no_predictions", machine=machine, detail=said.error)
            raise _later("the cost of a start is not known at present")
        return said

    async def state(self, machine: str) -> StoredState | None:
        """Return a state of a queue that is to be stored; None if there is none at present."""
        said = Foreseen()
        try:
            async with self._turn:
                said = await self._answer(f"state {machine}")
            if said.error:
                self._logger.warning("state_not_made", machine=machine, detail=said.error)
        except FAILURES as error:
            self._lost(machine, error)
        return said.state

    async def _ask(self, question: Question, machine: str, asked: _Asked) -> None:
        began_s = _now_s()
        try:
            async with self._turn:
                said = await self._answer(f"{question} {machine}")
            if said.error:
                self._logger.warning("no_predictions", machine=machine, detail=said.error)
            else:
                asked.said = said
        except FAILURES as error:
            self._lost(machine, error)
        finally:
            asked.asking = None
            now_s = _now_s()
            asked.rests_until_s = now_s + REST * (now_s - began_s)

    def _lost(self, machine: str, error: Exception) -> None:
        self._logger.warning("follower_lost", machine=machine, detail=repr(error))

    async def _answer(self, question: str) -> Foreseen:
        answer = await self._follower.answer(question.encode(), ANSWER_S_MAX)
        return msgspec.msgpack.decode(answer, type=Foreseen)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _later(detail: str) -> Unavailable:
    return Unavailable(detail, where="machine", remedy="ask again in a moment", retry_after_s=1.0)
