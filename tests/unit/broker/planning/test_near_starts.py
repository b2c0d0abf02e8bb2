"""The start nearest to a given one, compared with a search that looks at each second."""

from __future__ import annotations

import random

import pytest

from kalends.broker.planning.near_starts import fixed, near, nearest
from kalends.broker.planning.planner import fixed_start, plan
from kalends.core.requests import Alternative, Request, Term
from kalends.core.resources import ResourceInfo

AT = 100_000
ROOM = {"east/room": ResourceInfo(name="east/room", grain_s=1)}


@pytest.mark.parametrize("seed", range(200))
def test_the_nearest_start_is_that_of_a_search_of_each_second(seed: int) -> None:
    draw = random.Random(seed)
    reach_s = draw.choice([1, 7, 60])
    free = {AT + draw.randint(-70, 70) for _ in range(draw.choice([0, 1, 3, 12]))}

    def earliest(first: int, last: int) -> int | None:
        return min((each for each in free if first <= each <= last), default=None)

    reached = [each for each in free if abs(each - AT) <= reach_s]
    slow = min(reached, key=lambda each: (abs(each - AT), -each), default=None)
    assert nearest(earliest, AT, reach_s) == slow


def test_a_request_near_a_start_takes_it_if_it_is_free_and_a_near_one_if_it_is_not() -> None:
    asked = Request(
        alternatives=(Alternative(terms=(Term(resource="east/room"),)),),
        duration_s=600, not_before=AT, not_after=AT + 600,
    )  # fmt: skip
    wish = near(asked, AT, 1_800)
    assert fixed(wish, 1_800) == asked
    assert fixed_start(fixed(wish, 1_800)) == AT
    all_day = {"east/room": ((0, 10**6, 1),)}
    assert [each.start for each in plan(wish, ROOM, all_day)] == [AT]
    before = {"east/room": ((0, AT + 300, 1), (AT + 1_500, 10**6, 1))}
    (found,) = plan(wish, ROOM, before)
    assert AT - 450 <= found.start <= AT - 300
    after = {"east/room": ((AT + 700, 10**6, 1),)}
    (found,) = plan(wish, ROOM, after)
    assert found.start == AT + 700
    assert plan(wish, ROOM, {"east/room": ((AT + 1_801, 10**6, 1),)}) == []
