"""Jobs in step on several machines: all parts begin together, or none does, and none runs twice."""

from __future__ import annotations

from tests.shells.running import check


def test_parts_of_a_job_begin_together() -> None:
    check("steps", 1)


def test_no_part_runs_twice_or_without_the_others_whatever_strikes() -> None:
    check("steps_in_storms", 3)
