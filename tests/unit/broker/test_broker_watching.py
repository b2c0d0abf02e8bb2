"""The ring of events: nobody misses one, nobody sees another's, and a stop answers at once."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from kalends.broker.coordination.effects import Happened
from kalends.broker.desk import event_ring
from kalends.broker.desk.event_ring import EventRing
from kalends.contract.calls import Event


def happened(number: int, user: str = "anna", request_id: str = "one") -> Happened:
    return Happened(user, Event(number=number, at_ms=0, id=request_id, kind="reserved"))


async def numbers(
    ring: EventRing, after: int, *, user: str = "anna", request_id: str = ""
) -> list[int]:
    seen = await ring.watch(user, request_id, after, 0)
    return [event.number for event in seen.events]


@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(1, 3), st.sampled_from(("anna", "bert"))), max_size=4),
        max_size=6,
    )
)
async def test_calls_that_follow_each_other_see_every_event_of_theirs_once(
    batches: list[list[tuple[int, str]]],
) -> None:
    ring = EventRing(10)
    number, after, seen, expected = 10, 10, [], []
    for batch in batches:
        published = []
        for step, user in batch:
            number += step
            published.append(happened(number, user))
            expected += [number] if user == "anna" else []
        ring.publish(published)
        answer = await ring.watch("anna", "", after, 0)
        seen += [event.number for event in answer.events]
        after = answer.next
    assert seen == expected


async def test_from_now_on_leaves_out_what_was_before() -> None:
    ring = EventRing(0)
    ring.publish([happened(5)])
    answer = await ring.watch("anna", "", -1, 0)
    assert (answer.events, answer.next) == ((), 5)
    ring.publish([happened(7)])
    assert await numbers(ring, answer.next) == [7]


async def test_an_event_that_is_durable_after_a_later_one_is_not_lost() -> None:
    ring = EventRing(0)
    ring.publish([happened(7)])
    ring.publish([happened(5, request_id="two")])
    seen = await ring.watch("anna", "", 7, 0)
    assert [event.id for event in seen.events] == ["two"]
    assert seen.events[0].number > 7


async def test_one_request_or_everyone_can_be_watched() -> None:
    ring = EventRing(0)
    ring.publish([happened(1), happened(2, "bert", "two"), happened(3, "anna", "three")])
    assert await numbers(ring, 0, request_id="three") == [3]
    assert await numbers(ring, 0, user="") == [1, 2, 3]


async def test_who_waits_is_answered_by_their_first_event_and_not_by_others() -> None:
    ring = EventRing(0)
    waiting = asyncio.create_task(ring.watch("anna", "", 0, 3_600))
    await asyncio.sleep(0)
    ring.publish([happened(1, "bert")])
    await asyncio.sleep(0)
    assert not waiting.done()
    ring.publish([happened(2)])
    answer = await waiting
    assert [event.number for event in answer.events] == [2]


async def test_a_stop_answers_those_who_wait() -> None:
    ring = EventRing(0)
    waiting = asyncio.create_task(ring.watch("anna", "", 0, 3_600))
    await asyncio.sleep(0)
    ring.stop()
    assert (await waiting).events == ()
    assert (await ring.watch("anna", "", 0, 3_600)).events == ()


async def test_a_long_answer_goes_on_in_the_next_call() -> None:
    ring = EventRing(0)
    count = event_ring.ANSWER_MAX + 3
    ring.publish([happened(number) for number in range(1, count + 1)])
    first = await ring.watch("anna", "", 0, 0)
    assert len(first.events) == event_ring.ANSWER_MAX
    assert await numbers(ring, first.next) == list(range(event_ring.ANSWER_MAX + 1, count + 1))
