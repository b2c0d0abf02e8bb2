"""The demo's bookings are a plausible day of a busy machine, and never take more nodes than there are."""

from __future__ import annotations

from statistics import median

from hypothesis import given, settings
from hypothesis import strategies as st

from kalends.demo.workload import (
    AHEAD_S,
    DAY_S,
    LEAD_S,
    NODES,
    SEED,
    JobBooking,
    days_of_jobs,
    full_at,
    job_bookings,
)

moments = st.integers(min_value=1_700_000_000, max_value=1_900_000_000)
grains = st.sampled_from([1, 60, 300, 900, 3_600])
few = settings(max_examples=15)


def taken(jobs: list[JobBooking], moment_s: int) -> int:
    return sum(job.nodes for job in jobs if job.interval.start <= moment_s < job.interval.end)


@few
@given(moments, grains)
def test_no_moment_takes_more_nodes_than_the_machine_has(now_s: int, grain_s: int) -> None:
    jobs = job_bookings(now_s, grain_s)
    assert all(taken(jobs, start_s) <= NODES for start_s in {job.interval.start for job in jobs})


@few
@given(moments, grains)
def test_all_begin_after_now_and_lie_on_the_grain(now_s: int, grain_s: int) -> None:
    for job in job_bookings(now_s, grain_s):
        assert now_s + LEAD_S <= job.interval.start < job.interval.end
        assert job.interval.start % grain_s == job.interval.end % grain_s == 0


@few
@given(moments)
def test_on_a_grain_of_a_second_every_job_of_the_day_is_there(now_s: int) -> None:
    ran = [(job.start_s, job.end_s, job.nodes) for job in days_of_jobs(SEED)]
    instant_s = full_at(ran)
    begin_s = now_s + LEAD_S
    assert job_bookings(now_s, 1) == [
        ((max(start_s - instant_s, 0) + begin_s, end_s - instant_s + begin_s), nodes)
        for start_s, end_s, nodes in sorted(ran)
        if end_s > instant_s and start_s <= instant_s + AHEAD_S
    ]


def test_the_machine_is_full_when_the_demo_begins_and_busy_for_the_day() -> None:
    jobs = job_bookings(1_800_000_000, 60)
    first_s = min(job.interval.start for job in jobs)
    assert taken(jobs, first_s) == NODES
    hours = [taken(jobs, first_s + hour * 3_600) for hour in range(24)]
    assert sum(hours) > 0.8 * 24 * NODES
    assert 100 < len(jobs) < 256, "the operator may have so many bookings at the example's site"


def test_the_same_seed_gives_the_same_day_and_another_seed_another() -> None:
    assert job_bookings(1_800_000_000, 60) == job_bookings(1_800_000_000, 60)
    assert list(days_of_jobs(1)) != list(days_of_jobs(SEED))


def test_jobs_are_as_on_real_machines() -> None:
    jobs = list(days_of_jobs(SEED))
    assert {job.nodes for job in jobs} == {1 << power for power in range(7)}
    asked = [job.requested_s / job.run_s for job in jobs]
    assert min(asked) >= 1, "nobody is cut off"
    assert median(asked) > 1.5, "people ask for more than they need"
    assert min(job.run_s for job in jobs) < 60
    assert max(job.run_s for job in jobs) > 8 * 3_600
    by_day = sum(8 * 3_600 <= job.submit_s % DAY_S < 20 * 3_600 for job in jobs)
    assert by_day > 1.5 * (len(jobs) - by_day), "more come by day than by night"
