"""Nobody waits on a list beside room: stories made by hand, right ones and wrong ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kalends.contract import messages as m
from kalends.core.principals import Principal
from tests.simulation.test_line_oracle import HOUR_S, Story


def wish(rid: str, stamp: int, hours: int) -> m.Await:
    """For all of the first hours of argo/x."""
    return m.Await(
        rid=rid, att=1, stamp=stamp, principal=Principal(user=rid),
        wants=(m.Want("argo/x", 0, hours * HOUR_S, 1),), length_s=hours * HOUR_S,
    )  # fmt: skip


def stands_on_the_list(story: Story, rid: str, stamp: int, hours: int = 1) -> None:
    """A second passes; it asks for its place again, and has it."""
    story.wait(1_000)
    story.asks(wish(rid, stamp, hours))
    story.says(m.Awaited(rid=rid, att=1))


def a_slot_is_locked_and_waited_for(story: Story, hours: int = 1) -> None:
    story.visit("holder", 5, mode="vote")
    story.decide("holder", story.held("holder", "yes"))
    stands_on_the_list(story, "waits", 10, hours)


def a_list_waits_for_what_stays_locked(story: Story) -> None:
    story.oracle.healed()
    a_slot_is_locked_and_waited_for(story)
    for _ in range(9):
        stands_on_the_list(story, "waits", 10)


def a_list_waits_beside_too_little_room(story: Story) -> None:
    story.oracle.healed()
    a_slot_is_locked_and_waited_for(story, hours=2)
    for _ in range(9):
        stands_on_the_list(story, "waits", 10, hours=2)


def what_comes_free_is_taken_by_an_older_one_on_the_list(story: Story) -> None:
    story.oracle.healed()
    a_slot_is_locked_and_waited_for(story)
    stands_on_the_list(story, "older", 7)
    story.asks(m.Cancel(rid="holder", att=1))
    for _ in range(2):
        stands_on_the_list(story, "older", 7)
        stands_on_the_list(story, "waits", 10)
    story.visit("older", 7, mode="vote")
    story.decide("older", story.held("older", "yes"))
    story.asks(m.Release(rid="older", att=1))
    for _ in range(9):
        stands_on_the_list(story, "waits", 10)


def who_asks_and_finds_it_taken_waits_on(story: Story) -> None:
    story.oracle.healed()
    a_slot_is_locked_and_waited_for(story)
    story.asks(m.Cancel(rid="holder", att=1))
    for _ in range(3):
        for _ in range(4):
            stands_on_the_list(story, "waits", 10)
        story.visit("waits", 10, mode="vote")
        story.refused("waits")


def who_considers_what_it_holds_is_served(story: Story) -> None:
    story.oracle.healed()
    some = m.Await(
        rid="waits", att=1, stamp=10, principal=Principal(user="waits"),
        wants=(m.Want("argo/n", 0, HOUR_S, 1),), length_s=HOUR_S,
    )  # fmt: skip
    story.asks(some)
    story.says(m.Awaited(rid="waits", att=1))
    story.visit("waits", 10, units=1)
    hold_id = story.held("waits")
    for _ in range(12):
        story.wait(1_000)
        story.renew("waits", hold_id)


def who_is_over_needs_no_room(story: Story) -> None:
    story.oracle.healed()
    a_slot_is_locked_and_waited_for(story)
    story.asks(m.Cancel(rid="holder", att=1))
    story.oracle.ended("waits")
    for _ in range(9):
        stands_on_the_list(story, "waits", 10)


def nobody_is_served_while_faults_strike(story: Story) -> None:
    a_slot_is_locked_and_waited_for(story)
    story.asks(m.Cancel(rid="holder", att=1))
    for _ in range(9):
        stands_on_the_list(story, "waits", 10)


def a_broker_that_is_gone_is_not_served(story: Story) -> None:
    story.oracle.healed()
    a_slot_is_locked_and_waited_for(story)
    story.wait(200_000)
    story.asks(m.Cancel(rid="holder", att=1))


def who_cannot_pay_for_it_waits_on(story: Story) -> None:
    story.oracle._lists.can_pay = lambda site, waiter: waiter.visit.rid != "waits"
    a_request_on_a_list_is_not_served_beside_room(story)


def a_request_on_a_list_is_not_served_beside_room(story: Story) -> str:
    story.oracle.healed()
    a_slot_is_locked_and_waited_for(story)
    story.asks(m.Cancel(rid="holder", att=1))
    for _ in range(9):
        stands_on_the_list(story, "waits", 10)
    return "waits has been on lists beside room"


def room_that_reaches_beyond_what_came_free_is_not_seen(story: Story) -> str:
    """The second hour was free already; only both together are enough."""
    story.oracle.healed()
    a_slot_is_locked_and_waited_for(story, hours=2)
    story.asks(m.Cancel(rid="holder", att=1))
    for _ in range(9):
        stands_on_the_list(story, "waits", 10, hours=2)
    return "waits has been on lists beside room"


def an_offer_is_made_again_and_again_and_nothing_comes_of_it(story: Story) -> str:
    story.oracle.healed()
    a_slot_is_locked_and_waited_for(story)
    story.asks(m.Cancel(rid="holder", att=1))
    for _ in range(9):
        story.says(m.Awaited(rid="waits", att=1, offered=(m.Freed("argo/x", 0, HOUR_S),)))
        stands_on_the_list(story, "waits", 10)
    return "waits has been on lists beside room"


RIGHT = [
    a_list_waits_for_what_stays_locked,
    a_list_waits_beside_too_little_room,
    what_comes_free_is_taken_by_an_older_one_on_the_list,
    who_considers_what_it_holds_is_served,
    who_asks_and_finds_it_taken_waits_on,
    who_is_over_needs_no_room,
    nobody_is_served_while_faults_strike,
    a_broker_that_is_gone_is_not_served,
    who_cannot_pay_for_it_waits_on,
]

WRONG = [
    a_request_on_a_list_is_not_served_beside_room,
    room_that_reaches_beyond_what_came_free_is_not_seen,
    an_offer_is_made_again_and_again_and_nothing_comes_of_it,
]


@pytest.mark.parametrize("tell", RIGHT, ids=lambda tell: tell.__name__)
def test_of_lists_what_is_right_is_not_complained_of(tell: Callable[[Story], None]) -> None:
    story = Story()
    tell(story)
    assert story.oracle.finish() == []


@pytest.mark.parametrize("tell", WRONG, ids=lambda tell: tell.__name__)
def test_of_lists_what_is_wrong_is_complained_of_once(tell: Callable[[Story], str]) -> None:
    story = Story()
    expected = tell(story)
    [complaint] = story.oracle.finish()
    assert expected in complaint
