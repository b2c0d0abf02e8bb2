"""Disks that are restored to an earlier state: what the site, or the register, forgot comes back."""

from __future__ import annotations

import pytest

from tests.shells.running import check, seeds_to_catch


def test_what_a_site_forgot_with_its_disk_is_locked_again_and_not_sold() -> None:
    check("restore", 5)


def test_a_site_that_was_put_back_waits_for_its_brokers_before_it_sells_to_another() -> None:
    check("neighbours", 3)
    assert seeds_to_catch("neighbours", "a_new_life_waits_for_nobody", 20) is not None


def test_after_one_command_broker_and_sites_agree_whichever_disk_was_put_back() -> None:
    check("ghosts", 5)


def test_a_site_that_believes_its_older_past_is_caught() -> None:
    assert seeds_to_catch("restore", "an_older_past_is_accepted", 20) is not None


def test_a_register_that_was_put_back_is_reminded_by_its_sites_of_all_that_it_told() -> None:
    check("amnesia", 5)


def test_what_a_site_and_the_register_have_both_forgotten_is_named() -> None:
    check("disaster", 3)


def test_a_register_that_believes_its_older_past_is_caught() -> None:
    assert seeds_to_catch("amnesia", "an_older_register_is_accepted", 20) is not None


def test_a_promise_that_was_forgotten_with_the_disk_counts_for_nothing() -> None:
    check("half_promised", 4)
    assert seeds_to_catch("half_promised", "a_forgotten_promise_counts", 40) is not None


def test_a_site_that_forgot_a_change_that_was_cancelled_since_opens_again() -> None:
    check("half_told", 10)


def test_a_site_that_was_put_back_takes_no_owners_word_that_its_broker_may_know_better() -> None:
    check("approving", 3)
    assert seeds_to_catch("approving", "a_second_word_is_taken", 30) is not None


@pytest.mark.parametrize("name", ["plain_day", "restore", "amnesia", "half_promised", "telling"])
def test_a_register_that_answers_late_breaks_no_promise(name: str) -> None:
    check(name, 2, mutation="the_register_answers_late")
