"""Searches for starts: easy ones at once, hard ones in a process of their own, by turns of users.

A broker serves everybody on one event loop, and a legal request can be as hard as seconds. So what costs
more than a glance goes to a `search_worker`. Who has used least of it is next; who has used up a minute's
share waits; and where too many wait, the newest of who has most of them is turned away.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, TypeVar, cast

import msgspec

from kalends.agents.sandbox.budgets import Budgets
from kalends.agents.sandbox.turns import Turns
from kalends.broker.planning.directory import Directory
from kalends.broker.planning.search_budget import TooMuchWork, Work
from kalends.broker.searches.search_questions import AnyQuestion, BestStarts, Question
from kalends.broker.searches.search_worker import HardSearch, SearchAnswer
from kalends.core.errors import LimitExceeded, Unavailable, error_from_problem
from kalends.core.fair_queue import FairQueue
from kalends.serving.answering_child import AnsweringChild
from kalends.serving.logs import Logger

EASY_STARTS_COST: Final = 20_000
EASY_STEPS: Final = 100_000
"""A search that seems easy is given up for the worker after so many steps: 0.14 s of the loop at most."""

EASY_COST: Final = 2_000
"""The same limit for other questions, whose work depends less on the size of their input."""

CPU_S_PER_MINUTE: Final = 20.0
"""The processor time that one user's hard searches may take: a third of a core."""

WAITING_MAX: Final = 64
WAITING_OF_USER_MAX: Final = 8
WAIT_S_MAX: Final = 60.0
SEARCH_S_MAX: Final = 30.0
"""The steps of a search end it long before; a worker that does not answer by then is ended."""

T = TypeVar("T")


class Searches:
    """Answers questions about what `directory` knows. `close` ends the worker."""

    def __init__(self, directory: Directory, logger: Logger) -> None:
        self._directory = directory
        self._logger = logger
        self._worker = AnsweringChild("kalends.broker.searches.search_worker")
        self._budgets = Budgets(CPU_S_PER_MINUTE)
        queue: FairQueue[asyncio.Future[None]] = FairQueue(
            WAITING_MAX, WAITING_OF_USER_MAX, lambda user: self._budgets.used_s(user, _now_s())
        )
        self._turns = Turns(queue, at_once_max=1, wait_s_max=WAIT_S_MAX, crowded=_crowded)

    async def answer(self, user: str, question: Question[T]) -> T:
        """Raises what the question raises; `LimitExceeded` and `Unavailable` when its turn does not come."""
        easy_cost = EASY_STARTS_COST if isinstance(question, BestStarts) else EASY_COST
        if question.cost <= easy_cost:
            with contextlib.suppress(TooMuchWork):
                return question.answer(self._directory, Work(EASY_STEPS))
        self._admit(user)
        async with self._turns.one(user):
            self._admit(user)
            answered = await self._in_worker(user, question)
        if answered.problem is not None:
            raise error_from_problem(answered.problem)
        found: T = msgspec.msgpack.decode(answered.answer, type=question.kind)
        return found

    async def close(self) -> None:
        await self._worker.close()

    def _admit(self, user: str) -> None:
        if (wait_s := self._budgets.wait_s(user, _now_s())) > 0:
            raise LimitExceeded(
                f"hard searches of this user have taken {CPU_S_PER_MINUTE:g} s within a minute",
                where="request",
                remedy="wait, or give fewer alternatives, terms or preferences",
                retry_after_s=wait_s,
            )

    async def _in_worker(self, user: str, question: Question[T]) -> SearchAnswer:
        directory = self._directory
        asked = HardSearch(
            cast("AnyQuestion", question),
            list(directory.sites.values()),
            list(directory.resources.values()),
        )
        try:
            body = await self._worker.answer(msgspec.msgpack.encode(asked), SEARCH_S_MAX)
            answered = msgspec.msgpack.decode(body, type=SearchAnswer)
        except (OSError, EOFError, TimeoutError, msgspec.DecodeError) as error:
            self._logger.warning("search_worker_lost", detail=repr(error))
            self._budgets.charge(user, SEARCH_S_MAX, _now_s())
            raise Unavailable(
                "the search was cut off",
                where="request",
                remedy="give fewer alternatives, terms or preferences",
            ) from error
        self._budgets.charge(user, answered.cpu_s, _now_s())
        return answered


def _crowded() -> LimitExceeded:
    return LimitExceeded(
        "too many hard searches are waiting",
        where="request",
        remedy="try again later, or give fewer alternatives, terms or preferences",
        retry_after_s=1.0,
    )


def _now_s() -> float:
    return asyncio.get_running_loop().time()
