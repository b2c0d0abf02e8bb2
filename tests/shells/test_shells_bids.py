"""Jobs that are left to brokers: each runs once, where its user was told, and no place is kept for nobody."""

from __future__ import annotations

import pytest

from tests.shells.running import check, plays, seeds_to_catch
from tests.support.last_runs import elsewhere_at_last


def test_promised_starts_are_kept_whatever_others_are_offered_meanwhile() -> None:
    check("bids", 2)


def test_a_place_that_is_taken_later_than_was_promised_shows() -> None:
    assert seeds_to_catch("bids", "free_nodes_are_promised_for_now", 20) is not None


def test_a_job_that_was_left_to_a_broker_runs_once_and_where_its_user_was_told() -> None:
    check("bids_in_storms", 4)


def test_jobs_of_lost_sites_run_once_elsewhere_whether_or_not_the_sites_come_back() -> None:
    check("lost_sites", 3)


def test_jobs_that_may_start_again_run_to_their_end_and_twice_at_once_only_where_a_site_is_lost() -> (
    None
):
    check("starting_again", 3)


def test_a_job_that_was_moved_back_and_cancelled_has_not_run_elsewhere_at_last() -> None:
    runs = [("site0", 6), ("site2", 16)]
    assert not elsewhere_at_last(runs, ("site0", 14))
    assert elsewhere_at_last(runs, ("site0", 6))


def test_jobs_that_their_site_could_not_start_run_elsewhere_and_it_bids_again_once_it_can() -> None:
    check("black_hole", 3)


@pytest.mark.parametrize(
    "mutation",
    ["jobs_that_could_not_start_stay", "a_black_hole_bids_on", "a_black_hole_never_bids_again"],
)
def test_a_black_hole_shows(mutation: str) -> None:
    assert seeds_to_catch("black_hole", mutation, 3) is not None


def test_jobs_that_have_lost_their_nodes_go_where_there_is_room_and_run_to_their_end() -> None:
    played = plays("failing_nodes", 3, 4)
    for each in played:
        assert not each.broken, each.complaint()
    assert all(each.judged["elsewhere"] for each in played)


def test_jobs_run_once_and_where_was_told_also_by_virtual_sites_that_die() -> None:
    check("virtual_sites", 2)


def test_liars_harm_nobody_but_who_has_a_job_with_them() -> None:
    check("hostile_bids", 1)


def test_a_way_that_leads_to_itself_is_refused_and_harms_nobody() -> None:
    check("going_round", 1)
    assert seeds_to_catch("going_round", "ways_are_not_checked", 1) is not None


def test_a_virtual_site_that_promises_for_its_members_shows() -> None:
    assert seeds_to_catch("virtual_sites", "a_virtual_site_decides", 10) is not None


@pytest.mark.parametrize(
    "mutation",
    [
        "the_second_best_is_released_at_once",
        "ways_that_were_tried_stay",
        "places_are_rectangles",
        "permits_are_not_written",
        "jobs_ask_when_they_have_started",
    ],
)
def test_bids_gone_wrong_show_where_nothing_fails(mutation: str) -> None:
    assert seeds_to_catch("bids", mutation, 10) is not None


def test_places_that_are_held_for_ever_show_where_sites_are_lost() -> None:
    assert seeds_to_catch("lost_sites", "places_are_held_for_ever", 20) is not None


def test_a_site_that_was_left_and_starts_the_job_all_the_same_shows() -> None:
    assert seeds_to_catch("lost_sites", "a_site_that_was_left_may_start", 60) is not None


@pytest.mark.parametrize(
    "mutation",
    [
        "a_moved_job_does_not_wait_for_its_end",
        "a_moved_job_runs_on_where_it_was",
        "ends_of_moved_jobs_are_not_written_down",
        "all_sites_are_taken_for_lost",
    ],
)
def test_starting_again_gone_wrong_shows(mutation: str) -> None:
    assert seeds_to_catch("starting_again", mutation, 20) is not None


@pytest.mark.parametrize(
    "mutation",
    [
        "offered_jobs_begin_at_once",
        "places_of_earlier_lives_are_forgotten",
        "places_that_were_not_taken_stay",
        "every_attempt_makes_new_places",
        "jobs_are_placed_before_the_vote",
        "a_cancelled_place_leaves_its_job",
        "jobs_start_without_asking",
        "a_late_bid_wins",
        "rests_never_end",
    ],
)
def test_bids_gone_wrong_show(mutation: str) -> None:
    assert seeds_to_catch("bids_in_storms", mutation, 60) is not None
