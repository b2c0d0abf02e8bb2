"""Hard searches are made in another process, in turn, and say there what they would say here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kalends.broker.planning.directory import Directory
from kalends.broker.planning.search_budget import TooMuchWork, Work
from kalends.broker.search_questions import BestStarts, Explanation, Pieces, Question, WhyNone
from kalends.broker.search_worker import serve
from kalends.broker.searches import CPU_S_PER_MINUTE, EASY_COST, EASY_STARTS_COST, Searches
from kalends.contract import messages as m
from kalends.contract.messages import Want
from kalends.core.errors import InvalidInput, LimitExceeded, Refusal, RefusalCode
from kalends.core.language import parse_request
from kalends.core.requests import Alternative, Preference, Request, Term
from kalends.core.resources import ResourceInfo, Slot
from kalends.serving.logs import get_logger

T0 = 1_800_000_000
NAMES = ("lab/one", "lab/two")


def known() -> Directory:
    directory = Directory({"lab": "http://lab"})
    infos = tuple(ResourceInfo(name=name, capacity=8, grain_s=60) for name in NAMES)
    directory.greet(m.Hello(site="lab", epoch=1, resources=infos))
    return directory


def pieces(number: int) -> Pieces:
    """Free time in so many pieces, of 1 to 7 units each."""
    return {
        name: tuple(
            (T0 + n * 120, T0 + n * 120 + 60 + 60 * (n % 2), 1 + n % 7) for n in range(number)
        )
        for name in NAMES
    }


def asked(text: str = "lab/one:2 + lab/two") -> Request:
    (alternative,) = parse_request(text)
    return Request(
        alternatives=(alternative,), duration_s=60, not_before=T0, not_after=T0 + 3_000_000
    )


def hard() -> Request:
    """Growing amounts at many offsets, and many times that are liked: more than any search may weigh."""
    terms = tuple(
        Term(resource=NAMES[n % 2], units=1 + n % 3, units_max=8, units_weight=0.3 * n, offset_s=n * 60)
        for n in range(24)
    )  # fmt: skip
    liked = tuple(
        Preference(start=T0 + n * 70, end=T0 + n * 70 + 500, weight=0.1 * n) for n in range(400)
    )
    return Request(
        alternatives=tuple(Alternative(terms=terms, weight=0.1 * n) for n in range(4)),
        duration_s=60, not_before=T0, preferences=liked,
    )  # fmt: skip


QUESTIONS: list[Question[Any]] = [
    BestStarts(request=asked(), free=pieces(6_000), count=3),
    WhyNone(
        request=asked("lab/one:8 + lab/two:8"), free=pieces(1_000),
        refusals=(Refusal(where="lab/two", code=RefusalCode.CLOSED_HOURS, detail="shut"),),
    ),
    Explanation(
        request=asked("lab/one:8"), free=pieces(1_000), found=[], looked=(T0, T0 + 3_000_000),
        waiting={"lab/one": [Want("lab/one", T0, T0 + 60, 1)]},
        allowed={"lab/one": ((T0, T0 + 90_000, 8),)},
        slots={"lab/one": (Slot(T0, T0 + 90_000, 3, "locked", 1),)},
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
        assert made._process is not None


async def test_an_easy_search_needs_no_other_process() -> None:
    async with searches() as made:
        question = BestStarts(request=asked(), free=pieces(20), count=3)
        assert await made.answer("ada", question) == question.answer(known(), Work())
        assert made._process is None


async def test_a_search_beyond_its_steps_is_refused_as_such_and_nobody_waits_for_it() -> None:
    question = BestStarts(request=hard(), free=pieces(400), count=100)
    with pytest.raises(TooMuchWork):
        question.answer(known(), Work())
    async with searches() as made:
        crowd = [asyncio.create_task(made.answer("greedy", question)) for _ in range(3)]
        await asyncio.sleep(0)
        easy = BestStarts(request=asked(), free=pieces(20), count=3)
        assert await made.answer("ada", easy)
        assert not any(each.done() for each in crowd)
        with pytest.raises(InvalidInput, match="too many combinations"):
            await crowd[0]
        for each in crowd[1:]:
            each.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
        # Who gave up left nothing behind that would be taken for the answer of another.
        assert await made.answer("bob", QUESTIONS[0]) == QUESTIONS[0].answer(known(), Work())


async def test_who_has_used_up_a_minute_of_hard_searches_waits_and_nobody_else_does() -> None:
    async with searches() as made:
        made._budgets.charge("greedy", CPU_S_PER_MINUTE, asyncio.get_running_loop().time())
        with pytest.raises(LimitExceeded) as caught:
            await made.answer("greedy", QUESTIONS[0])
        assert caught.value.retry_after_s
        assert await made.answer("ada", QUESTIONS[0])


def test_a_worker_ends_with_its_input(tmp_path: Any) -> None:
    (tmp_path / "questions").write_bytes(b"\0\0")
    with (
        (tmp_path / "questions").open("rb") as questions,
        (tmp_path / "answers").open("wb") as answers,
    ):
        serve(questions, answers)
    assert (tmp_path / "answers").read_bytes() == b""
