"""The demo's bookings are the log's jobs, moved to the present without ever taking more nodes."""

from __future__ import annotations

from importlib import resources

from hypothesis import given
from hypothesis import strategies as st

from kalends.demo.workload import AHEAD_S, LEAD_S, job_bookings
from kalends.simulation.workloads.swf_fields import read_header, read_jobs, running_and_reserved

LOG = resources.files("kalends.demo") / "data" / "sdsc-sp2-excerpt.swf"
LINES = LOG.read_text("utf-8").splitlines()
NODES = int(read_header(LINES)["MaxProcs"])

moments = st.integers(min_value=1_700_000_000, max_value=1_900_000_000)
grains = st.sampled_from([1, 60, 300, 900, 3_600])


@given(moments, grains)
def test_no_moment_takes_more_nodes_than_the_machine_has(now_s: int, grain_s: int) -> None:
    jobs = job_bookings(LINES, now_s, grain_s)
    for moment in {job.interval.start for job in jobs}:
        taken = sum(job.nodes for job in jobs if job.interval.start <= moment < job.interval.end)
        assert taken <= NODES


@given(moments, grains)
def test_all_begin_after_now_and_lie_on_the_grain(now_s: int, grain_s: int) -> None:
    for job in job_bookings(LINES, now_s, grain_s):
        assert now_s + LEAD_S <= job.interval.start < job.interval.end
        assert job.interval.start % grain_s == job.interval.end % grain_s == 0


@given(moments)
def test_on_a_grain_of_a_second_every_job_of_the_log_is_there(now_s: int) -> None:
    instant_s = int(read_header(LINES)["ExcerptInstant"])
    expected = running_and_reserved(read_jobs(LINES), instant_s, AHEAD_S)
    assert sorted(
        (job.interval.end - now_s - LEAD_S, job.nodes) for job in job_bookings(LINES, now_s, 1)
    ) == sorted((end_s - instant_s, nodes) for _, end_s, nodes in expected)


def test_the_machine_is_full_when_the_demo_begins() -> None:
    jobs = job_bookings(LINES, 1_800_000_000, 60)
    first = min(job.interval.start for job in jobs)
    assert sum(job.nodes for job in jobs if job.interval.start == first) == NODES
