"""The waiting room extracts by the formula of Gehring and Ramme 1996, section 3.1, and forgets nobody."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.core.errors import InvalidInput
from kalends.scheduling.job import Job
from kalends.scheduling.waiting_room import WaitingRoom

ORDERS = st.lists(st.integers(1, 9), min_size=1, max_size=5)
PRIORITIES = st.lists(st.integers(-1, 6), max_size=40)


def room_of(orders: list[int], priorities: list[int]) -> tuple[WaitingRoom, list[Job]]:
    room = WaitingRoom(orders)
    jobs = [
        Job(id=number, submit_s=number, nodes=1, requested_s=1, priority=priority, order=number)
        for number, priority in enumerate(priorities)
    ]
    for job in jobs:
        room.put(job)
    return room, jobs


@settings(max_examples=effort.examples(150))
@given(ORDERS, PRIORITIES)
def test_each_queue_gives_what_the_formula_says_the_oldest_first(
    orders: list[int], priorities: list[int]
) -> None:
    room, jobs = room_of(orders, priorities)
    queues: list[list[Job]] = [[] for _ in orders]
    for job in jobs:
        queues[min(max(job.priority, 0), len(orders) - 1)].append(job)
    highest = max([1, *(e for e, queue in zip(orders, queues, strict=True) if queue)])
    expected = []
    for extraction_order, queue in reversed(list(zip(orders, queues, strict=True))):
        if queue:
            highest = max(e for e, each in zip(orders, queues, strict=True) if each)
        expected += queue[: ceil(Fraction(len(queue) * extraction_order, highest))]
    assert room.extract() == expected
    assert len(room) == len(jobs) - len(expected)
    effort.steps["extractions"] += 1


@settings(max_examples=effort.examples(100))
@given(ORDERS, PRIORITIES)
def test_every_job_comes_out_once_in_order_within_its_queue(
    orders: list[int], priorities: list[int]
) -> None:
    room, jobs = room_of(orders, priorities)
    blocks = []
    while len(room):
        block = room.extract()
        assert block, "a filled waiting room always gives a block"
        blocks.append(block)
    out = [job.order for block in blocks for job in block]
    assert sorted(out) == [job.order for job in jobs]
    for queue in range(len(orders)):
        mine = [order for order in out if min(max(priorities[order], 0), len(orders) - 1) == queue]
        assert mine == sorted(mine)


@given(ORDERS, PRIORITIES)
def test_emptying_a_copy_leaves_the_room_as_it_is(orders: list[int], priorities: list[int]) -> None:
    room, _ = room_of(orders, priorities)
    before = list(room)
    twin = room.copy()
    while len(twin):
        twin.extract()
    assert list(room) == before


@pytest.mark.parametrize("orders", [[], [0], [1, -2]])
def test_a_queue_that_would_never_be_emptied_is_refused(orders: list[int]) -> None:
    with pytest.raises(InvalidInput, match="extraction orders"):
        WaitingRoom(orders)


def test_a_job_that_is_removed_waits_no_more() -> None:
    room, jobs = room_of([1, 2], [0, 1, 1])
    room.remove(jobs[1])
    assert list(room) == [jobs[2], jobs[0]]
    with pytest.raises(ValueError, match="not in deque"):
        room.remove(jobs[1])
