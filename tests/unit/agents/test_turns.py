"""Turns: no more at once than there are, and none lost, whoever gives up."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from kalends.agents.sandbox.turns import Turns
from kalends.core.fair_queue import FairQueue

AT_ONCE = 2


class Crowded(Exception):
    """There is no place to wait."""


def turns(wait_s_max: float = 60.0) -> Turns:
    return Turns(FairQueue(6, 3), at_once_max=AT_ONCE, wait_s_max=wait_s_max, crowded=Crowded)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), st.integers(0, 3)), max_size=40))
def test_turns_are_never_more_than_there_are_and_none_is_lost(
    callers: list[tuple[str, bool, int]],
) -> None:
    made = turns()
    most = 0

    async def call(user: str, steps: int) -> None:
        nonlocal most
        async with made.one(user):
            most = max(most, made.taken)
            for _ in range(steps):
                await asyncio.sleep(0)

    async def play() -> None:
        tasks = []
        for user, gives_up, steps in callers:
            tasks.append(asyncio.create_task(call(user, steps)))
            await asyncio.sleep(0)
            if gives_up:
                tasks[-1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await made.rest()
        async with made.one("b"):
            assert made.taken == 1

    asyncio.run(play())
    assert most <= AT_ONCE


async def test_who_waits_too_long_is_told_so_and_leaves_no_gap() -> None:
    made, over = turns(0.01), asyncio.Event()

    async def long_one() -> None:
        async with made.one("greedy"):
            await over.wait()

    tasks = [asyncio.create_task(long_one()) for _ in range(AT_ONCE)]
    await asyncio.sleep(0)
    ended = await asyncio.gather(long_one(), return_exceptions=True)
    assert [type(each) for each in ended] == [Crowded]
    over.set()
    await asyncio.gather(*tasks)
    await made.rest()
