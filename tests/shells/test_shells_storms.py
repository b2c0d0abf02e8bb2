"""Whatever strikes the shipped servers, what users were told stays true."""

from __future__ import annotations

import pytest

from tests.shells.running import check, seeds_to_catch


def test_a_storm_of_all_faults_leaves_everything_true_and_nobody_waiting() -> None:
    check("storm", 3)


def test_a_crowd_for_few_slots_is_served_in_order_whatever_strikes() -> None:
    check("crowd", 4)


def test_power_lost_between_any_two_writes_takes_nothing_back() -> None:
    check("power", 3)


def test_a_key_has_one_answer_however_often_and_of_whom_it_is_asked() -> None:
    check("repeat", 4)


def test_a_call_that_was_answered_has_the_same_answer_while_a_site_has_not_confirmed_it() -> None:
    check("again", 2)


def test_what_owners_approve_is_reserved_and_nothing_else_while_servers_die() -> None:
    check("owners", 3)


def test_nobody_has_more_than_owners_allow_by_several_replicas_changes_and_restarts() -> None:
    check("limiting", 3)


@pytest.mark.parametrize(
    "mutation", ["ChangesAreNotLimited", "LimitedWhenHeldOnly", "CountsAgainFromNothing"]
)
def test_a_limit_that_is_not_kept_shows(mutation: str) -> None:
    assert seeds_to_catch("limiting", mutation, 20) is not None


@pytest.mark.parametrize("mutation", ["synchronous_normal", "say_then_store"])
def test_a_loss_of_power_shows(mutation: str) -> None:
    assert seeds_to_catch("power", mutation, 60) is not None


def test_a_wake_up_that_is_lost_on_reconnect_shows() -> None:
    assert seeds_to_catch("wake", "wake_up_lost_on_reconnect", 120) is not None
