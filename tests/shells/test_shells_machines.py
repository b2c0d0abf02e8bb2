"""Sites that run jobs: what users are told is what ran, whatever strikes."""

from __future__ import annotations

import pytest

from tests.shells.running import check, seeds_to_catch


def test_no_job_is_lost_or_runs_twice_and_reservations_are_kept_whatever_strikes() -> None:
    check("machine_room", 4)


@pytest.mark.parametrize(
    "mutation",
    [
        "jobs_start_before_they_are_stored",
        "jobs_are_answered_before_they_are_stored",
        "kills_are_forgotten_at_a_restart",
        "nodes_are_free_when_a_job_is_told_to_end",
        "what_ran_before_a_restart_is_taken_for_gone",
        "a_removed_record_is_not_missed",
        "queues_hear_of_no_reservations",
        "whatever_was_lost_runs_again",
        "what_was_lost_is_charged",
    ],
)
def test_a_machine_gone_wrong_shows(mutation: str) -> None:
    assert seeds_to_catch("machine_room", mutation, 60) is not None


def test_a_store_taken_to_other_hosts_starts_no_job_twice_and_loses_what_a_lost_host_had() -> None:
    check("machine_moved", 3)


def test_jobs_adopted_by_another_host_show() -> None:
    assert seeds_to_catch("machine_moved", "jobs_are_adopted_by_another_host", 20) is not None


def test_a_site_whose_store_was_put_back_runs_nothing_again_and_gives_no_taken_nodes() -> None:
    check("machine_restored", 3)


@pytest.mark.parametrize(
    "mutation",
    [
        "what_began_since_the_copy_is_overlooked",
        "nobody_waits_for_the_forgotten_to_end",
        "charges_go_by_the_clock_of_the_site_alone",
    ],
)
def test_a_restored_machine_gone_wrong_shows(mutation: str) -> None:
    assert seeds_to_catch("machine_restored", mutation, 60) is not None
