"""For tests: which seeds of a scenario are played, and what must have come of it."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from tests.shells.players import play
from tests.shells.reports import Report

SHOWS_AT: Final = {
    "a_second_word_is_taken": 2,
    "what_was_told_stays_in_the_store": 2,
    "a_cancelled_place_leaves_its_job": 13,
    "a_late_bid_wins": 3,
    "rests_never_end": 23,
    "jobs_are_placed_before_the_vote": 23,
    "a_site_that_was_left_may_start": 7,
    "jobs_ask_when_they_have_started": 8,
    "a_moved_job_runs_on_where_it_was": 3,
    "ends_of_moved_jobs_are_not_written_down": 2,
    "free_nodes_are_promised_for_now": 4,
    "every_attempt_makes_new_places": 5,
    "kills_are_forgotten_at_a_restart": 45,
    "charges_go_by_the_clock_of_the_site_alone": 3,
    "ChangesAreNotLimited": 2,
    "LimitedWhenHeldOnly": 4,
    "nobody_waits_for_the_forgotten_to_end": 5,
    "what_began_since_the_copy_is_overlooked": 6,
    "wake_up_lost_on_reconnect": 33,
    "jobs_start_before_they_are_stored": 64,
    "queues_hear_of_no_reservations": 5,
}
"""A seed that shows a mutation, where the first few do not: it is tried first."""


def plays(
    name: str, first: int, last: int, *, mutation: str = "", until_broken: bool = False
) -> list[Report]:
    """Reports of the seeds from `first` to `last`, or `until_broken` to the first that breaks a promise."""
    reports: list[Report] = []
    for seed in range(first, last + 1):
        reports.append(play(name, seed, mutation=mutation))
        if until_broken and reports[-1].broken:
            break
    return reports


def check(name: str, seeds: int, *, mutation: str = "") -> None:
    """Every promise of the scenario is kept for the seeds from 1 to `seeds`."""
    last = plays(name, 1, seeds, mutation=mutation, until_broken=True)[-1]
    assert not last.broken, last.complaint()


def seeds_to_catch(name: str, mutation: str, seeds: int) -> int | None:
    """A seed up to `seeds` whose scenario breaks a promise with `mutation`; None when none does."""
    first = SHOWS_AT.get(mutation, 1)
    if plays(name, first, first, mutation=mutation)[0].broken:
        return first
    last = plays(name, 1, seeds, mutation=mutation, until_broken=True)[-1]
    return last.seed if last.broken else None


def names(*which: str) -> list[str]:
    """All scenarios that are short, by name; with ``--machines``, those whose sites run jobs."""
    command = [sys.executable, "-m", "tests.shells", "--names", *which]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split()
