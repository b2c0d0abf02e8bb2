"""Hard searches are made in another process, in turn, and say there what they would say here."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kalends.broker.planning.directory import Directory
from kalends.broker.planning.search_budget import Work
from kalends.broker.searches.search_questions import BestStarts, Explanation, Pieces, WhyNone
from kalends.broker.searches.search_worker import HardSearch, answered
from kalends.broker.searches.searches import CPU_S_PER_MINUTE, EASY_COST, EASY_STARTS_COST, Searches
from kalends.contract import messages as m
from kalends.contract.messages import RoomNeed, Want
from kalends.core.errors import LimitExceeded, Refusal, RefusalCode
from kalends.core.language import parse_alternatives
from kalends.core.requests import Alternative, Attribute, Request, Term, TimePreference
from kalends.core.resources import ResourceInfo, Slot
from kalends.serving.logs import get_logger

T0 = 1_800_000_000
NAMES = ("lab/one", "lab/two")


def known() -> Directory:
    directory = Directory({"lab": "http://lab"})
    infos = tuple(
        ResourceInfo(name=name, capacity=100, grain_s=60, attributes={"kind": "cluster"})
        for name in NAMES
    )
    directory.greet(m.Hello(site="lab", epoch=1, resources=infos))
    return directory


def pieces(number: int) -> Pieces:
    """Free time in so many pieces, of 1 to 99 units each."""
    return {
        name: tuple(
            (T0 + n * 120, T0 + n * 120 + 60 + 60 * (n % 2), 1 + n % 99) for n in range(number)
        )
        for name in NAMES
    }


def asked(text: str = "lab/one:2 + lab/two") -> Request:
    alternatives = parse_alternatives(text)
    return Request(
        alternatives=alternatives, duration_s=60, not_before=T0, not_after=T0 + 3_000_000
    )


def hard() -> Request:
    """Growing amounts, far apart, and many times that are liked: more than any search may weigh."""
    chance = random.Random(3)
    kind = Attribute(name="kind", operator="=", value="cluster")
    liked = tuple(
        TimePreference(
            start=T0 + n * 2_000, end=T0 + n * 2_000 + chance.randrange(100, 9_000),
            weight=chance.choice((-1, 1)) * chance.random(),
        )
        for n in range(400)
    )  # fmt: skip

    def term() -> Term:
        return Term(
            attributes=(kind,), units=chance.randrange(1, 8), units_max=100,
            units_weight=chance.random(), offset_s=60 * chance.randrange(4_000),
        )  # fmt: skip

    return Request(
        alternatives=tuple(
            Alternative(terms=tuple(term() for _ in range(4)), weight=chance.random())
            for _ in range(32)
        ),
        duration_s=600, not_before=T0, preferences=liked,
    )  # fmt: skip


CAP = Refusal(where="lab/two", code=RefusalCode.NOT_ALLOWED, detail="at most 8", rule="few")

QUESTIONS: list[Any] = [
    BestStarts(request=asked(), free=pieces(6_000), count=3),
    WhyNone(
        request=asked("lab/one:8 + lab/two:8"), free=pieces(1_000),
        refusals=(Refusal(where="lab/two", code=RefusalCode.CLOSED_HOURS, detail="shut"),),
        barred=(("lab/two", RoomNeed("", T0, T0 + 60, 9, 60), CAP),),
    ),
    Explanation(
        request=asked("lab/one:8"), free=pieces(1_000), found=[], looked=(T0, T0 + 3_000_000),
        waiting={"lab/one": [Want("lab/one", T0, T0 + 60, 1)]},
        allowed={"lab/one": ((T0, T0 + 90_000, 8),)},
        slots={"lab/one": (Slot(T0, T0 + 90_000, 3, "locked"),)},
    ),
]  # fmt: skip


@asynccontextmanager
async def searches() -> AsyncIterator[Searches]:
    made = Searches(known(), get_logger(role="broker", name="npaci"))
    try:
        yield made
    finally:
        await made.close()


async def test_a_question_has_the_same_answer_in_the_worker_as_here() -> None:
    async with searches() as made:
        for question in QUESTIONS:
            limit = EASY_STARTS_COST if isinstance(question, BestStarts) else EASY_COST
            assert question.cost > limit
            assert await made.answer("ada", question) == question.answer(known(), Work())
        assert made._worker.runs


async def test_an_easy_search_needs_no_other_process() -> None:
    async with searches() as made:
        question = BestStarts(request=asked(), free=pieces(20), count=3)
        assert await made.answer("ada", question) == question.answer(known(), Work())
        assert not made._worker.runs


async def test_hard_searches_keep_nobody_from_easy_ones() -> None:
    question = BestStarts(request=hard(), free=pieces(200), count=100)
    async with searches() as made:
        crowd = [asyncio.create_task(made.answer("greedy", question)) for _ in range(2)]
        await asyncio.sleep(0)
        easy = BestStarts(request=asked(), free=pieces(20), count=3)
        assert await made.answer("ada", easy)
        assert not any(each.done() for each in crowd)
        for each in crowd:
            each.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
        # Who gave up left nothing behind that would be taken for the answer of another.
        assert await made.answer("bob", QUESTIONS[0]) == QUESTIONS[0].answer(known(), Work())


async def test_who_has_used_up_a_minute_of_hard_searches_waits_and_nobody_else_does() -> None:
    async with searches() as made:
        made._budgets.charge("greedy", 2 * CPU_S_PER_MINUTE, asyncio.get_running_loop().time())
        with pytest.raises(LimitExceeded) as caught:
            await made.answer("greedy", QUESTIONS[0])
        assert caught.value.retry_after_s
        assert await made.answer("ada", QUESTIONS[0])


def test_a_search_beyond_its_steps_is_refused_as_such() -> None:
    directory = known()
    question = BestStarts(request=hard(), free=pieces(20), count=1)
    asking = HardSearch(
        question, list(directory.sites.values()), list(directory.resources.values())
    )
    problem = answered(asking, Work(100)).problem
    assert problem is not None
    assert "too many combinations" in problem.detail
