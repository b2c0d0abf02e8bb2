"""Jobs in step on several machines: all parts begin together, or none does, and none runs twice."""

from __future__ import annotations

import pytest

from tests.shells.running import check, seeds_to_catch


def test_parts_of_a_job_begin_together() -> None:
    check("steps", 1)


def test_no_part_runs_twice_or_without_the_others_whatever_strikes() -> None:
    check("steps_in_storms", 4)


def test_no_part_runs_without_the_others_where_a_site_is_cut_off_for_longer_than_parts_wait() -> (
    None
):
    check("steps_cut_off", 4)


@pytest.mark.parametrize(
    ("story", "mutation"),
    [
        ("steps", "whoever_has_come_starts"),
        ("steps", "nothing_starts_in_step"),
        ("steps", "parts_start_as_they_hear_of_it"),
        ("steps_in_storms", "nothing_starts_in_step"),
        ("steps_cut_off", "a_part_gives_up_unasked"),
        ("steps_cut_off", "giving_up_undoes_a_start"),
    ],
)
def test_common_starts_gone_wrong_show(story: str, mutation: str) -> None:
    assert seeds_to_catch(story, mutation, 3) is not None
