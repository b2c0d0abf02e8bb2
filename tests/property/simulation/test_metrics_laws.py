"""The metrics of a schedule, beside slow ones written from their formulas."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from math import ceil, fsum, isclose
from statistics import fmean, median

from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.simulation.job import SimulatedJob
from kalends.simulation.metrics import ScheduleMetrics, Summary, ranked


def ended(order: int, submit_s: int, wait: int, run: int, nodes: int) -> SimulatedJob:
    start_s = submit_s + wait
    return SimulatedJob(
        order, submit_s, nodes, run, order=order, start_s=start_s, end_s=start_s + run
    )


def schedule(times: Sequence[tuple[int, int, int, int]]) -> list[SimulatedJob]:
    """Jobs of ``(submit, wait, run, nodes)`` as they come out of a replay: in order of ends."""
    jobs = [ended(order, *each) for order, each in enumerate(sorted(times))]
    return sorted(jobs, key=lambda job: job.end_s)


def slow_summary(jobs: Sequence[SimulatedJob], nodes: int) -> Summary:
    """The formulas, one after the other."""
    if not jobs:
        return Summary()
    waits = [job.start_s - job.submit_s for job in jobs]
    runs = [job.end_s - job.start_s for job in jobs]
    responses = [job.end_s - job.submit_s for job in jobs]
    makespan = max(job.end_s for job in jobs) - min(job.submit_s for job in jobs)
    depths = [
        sum(job.submit_s <= instant.submit_s < job.start_s for job in jobs) for instant in jobs
    ]
    return Summary(
        jobs=len(jobs),
        mean_wait_s=fmean(waits),
        median_wait_s=float(median(waits)),
        p95_wait_s=sorted(waits)[ceil(len(jobs) * 95 / 100) - 1],
        max_wait_s=max(waits),
        mean_response_s=fmean(responses),
        mean_slowdown=fmean(
            response / max(run, 1) for response, run in zip(responses, runs, strict=True)
        ),
        mean_bounded_slowdown=fmean(
            max(1, response / max(run, 10)) for response, run in zip(responses, runs, strict=True)
        ),
        utilization=fsum(job.nodes * run for job, run in zip(jobs, runs, strict=True))
        / (nodes * (makespan or 1)),
        makespan_s=makespan,
        mean_queue_depth=sum(waits) / (makespan or 1),
        max_queue_depth=max(depths),
        throughput_per_s=len(jobs) / (makespan or 1),
    )


def assert_same(fast: Summary, slow: Summary) -> None:
    for name in Summary.__struct_fields__:
        assert isclose(getattr(fast, name), getattr(slow, name), rel_tol=1e-12), name


times = st.one_of(st.integers(0, 30), st.integers(0, 10**6), st.integers(0, 1 << 40))
jobs_given = st.lists(st.tuples(times, times, times, st.integers(1, 64)), max_size=60)


@settings(max_examples=effort.examples(200), deadline=None)
@given(jobs_given, st.integers(1, 7))
def test_streamed_metrics_are_those_of_the_formulas(
    given_jobs: list[tuple[int, int, int, int]], chunk: int
) -> None:
    jobs = schedule(given_jobs)
    metrics = ScheduleMetrics(64)
    for first in range(0, len(jobs), chunk):
        metrics.extend(jobs[first : first + chunk])
    assert_same(metrics.summary(), slow_summary(jobs, 64))
    effort.steps["metrics"] += len(jobs)


@settings(max_examples=effort.examples(100), deadline=None)
@given(jobs_given, st.data())
def test_a_summary_in_the_middle_is_that_of_the_jobs_so_far(
    given_jobs: list[tuple[int, int, int, int]], data: st.DataObject
) -> None:
    jobs = schedule(given_jobs)
    so_far = data.draw(st.integers(0, len(jobs)))
    metrics = ScheduleMetrics(64)
    for job in jobs[:so_far]:
        metrics.add(job)
    assert_same(metrics.summary(), slow_summary(jobs[:so_far], 64))
    metrics.extend(jobs[so_far:])
    assert_same(metrics.summary(), slow_summary(jobs, 64))


@settings(max_examples=effort.examples(200), deadline=None)
@given(st.lists(times, min_size=1, max_size=200), st.data())
def test_values_of_a_rank_are_found_without_sorting(values: list[int], data: st.DataObject) -> None:
    ranks = sorted(data.draw(st.lists(st.integers(0, len(values) - 1), max_size=4)))
    assert ranked(values, ranks) == [sorted(values)[rank] for rank in ranks]


def test_the_bounded_slowdown_is_at_least_1_and_counts_runs_of_less_than_10_s_as_10() -> None:
    def bounded(wait: int, run: int) -> float:
        metrics = ScheduleMetrics(1)
        metrics.add(ended(0, 0, wait, run, 1))
        return metrics.summary().mean_bounded_slowdown

    assert [bounded(0, 1), bounded(5, 1), bounded(19, 1), bounded(10, 10), bounded(0, 99)] == [
        1.0, 1.0, 2.0, 2.0, 1.0,
    ]  # fmt: skip


def test_no_jobs_have_metrics_of_nothing() -> None:
    assert ScheduleMetrics(4).summary() == Summary()


def test_a_million_jobs_are_measured_in_10_bytes_each() -> None:
    metrics = ScheduleMetrics(8)
    count = 100_000
    metrics.add(ended(count - 1, count, 3, 5, 1))
    tracemalloc.start()
    for order in range(count - 1):
        metrics.add(ended(order, order, order * 7919 % 10007, 100 + order % 13, 1))
    metrics.summary()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * count
