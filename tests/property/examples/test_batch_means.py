"""Batch means: exact sums, and intervals that cover the M/M/m queue's true mean as often as they say."""

from __future__ import annotations

import random
from collections.abc import Iterator
from heapq import heapreplace

import pytest
from batch_means import BatchMeans, Steady
from hypothesis import given
from hypothesis import strategies as st
from oracles import multi_server
from tests import effort

from kalends.core.errors import InvalidInput
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.policies.moldable.moldable import Adaptive, Lazy
from kalends.scheduling.policies.moldable.reconfigurable import Reconfigurable
from kalends.scheduling.policies.ordered.fcfs import Fcfs
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay


@given(st.lists(st.integers(-1000, 1000), max_size=400), st.integers(8, 12), st.integers(1, 5))
def test_batches_are_those_of_the_whole_series_cut_afterwards(
    values: list[int], batches: int, size: int
) -> None:
    streamed = BatchMeans(batches, size)
    for value in values:
        streamed.add(value)
    while len(values) // size >= 2 * batches:
        size *= 2
    cut = [values[at : at + size] for at in range(0, len(values) - size + 1, size)]
    counted = [value for batch in cut[batches // 8 :] for value in batch]
    assert streamed.size == size
    assert streamed.count == len(values)
    assert streamed.enough == (len(cut) >= batches)
    if counted:
        assert streamed.mean == pytest.approx(sum(counted) / len(counted))
    elif values:
        assert streamed.mean == pytest.approx(sum(values) / len(values))
    effort.steps["series cut into batches afterwards"] += 1


def test_independent_values_have_the_standard_error_of_the_textbook() -> None:
    draw = random.Random(3)
    found = BatchMeans()
    for _ in range(64 * 64 - 1):
        found.add(draw.gauss(10, 2))
    counted = found.count - found.count % found.size - found.warm_up * found.size
    assert found.mean == pytest.approx(10, abs=0.15)
    assert found.standard_error == pytest.approx(2 / counted**0.5, rel=0.35)
    assert abs(found.correlation) < 0.4


def test_a_trend_is_not_taken_for_a_mean() -> None:
    found = BatchMeans()
    for value in range(64 * 40):
        found.add(100_000 + value)
    assert found.standard_error < 0.01 * found.mean
    assert not found.settled(0.01)


def test_nothing_is_settled_before_there_are_batches_enough() -> None:
    found = BatchMeans(32, 1)
    for at in range(31):
        found.add(5 + at % 2)
        assert not found.settled(0.5)
    found.add(6)
    assert found.settled(0.5)


def test_a_run_stops_when_every_class_and_the_whole_are_settled() -> None:
    draw = random.Random(5)
    steady = Steady(["often", "seldom"], 0.02)
    ended = 0
    while True:
        ended += 1
        if ended % 20:
            stop = steady.add("often", draw.expovariate(1))
        else:
            stop = steady.add("seldom", draw.expovariate(1 / 30))
        if stop:
            break
    assert steady.whole.count == ended
    for each in (steady.whole, *steady.classes.values()):
        assert each.settled(0.02)
    assert ended >= 20 * 32 * 64


@pytest.mark.parametrize(("batches", "size"), [(7, 1), (8, 0)])
def test_too_few_batches_are_refused(batches: int, size: int) -> None:
    with pytest.raises(InvalidInput, match="8 or more"):
        BatchMeans(batches, size)


def exponential_jobs(
    seed: int, count: int, arrivals: float, service_ms: float
) -> Iterator[SimulatedJob]:
    draw = random.Random(seed)
    now = 0.0
    for number in range(count):
        now += draw.expovariate(arrivals)
        run_ms = max(round(draw.expovariate(1 / service_ms)), 1)
        yield SimulatedJob(number, int(now), 1, run_ms, run_s=run_ms)


def test_the_mean_response_of_m_m_m_is_that_of_the_formula() -> None:
    true_ms = multi_server(0.7 * 4 / 10_000, 1 / 10_000, 4).mean_response
    runs = effort.examples(40)
    means = 0.0
    for seed in range(runs):
        found = BatchMeans()
        jobs = exponential_jobs(seed, 3000, 0.7 * 4 / 10_000, 10_000.0)
        for job in replay(jobs, Scheduler(Fcfs(Cluster(4)))):
            found.add(job.end_s - job.submit_s)
        means += found.mean / runs
    assert means == pytest.approx(true_ms, rel=0.02)


def responses(seed: int, count: int, load: float, servers: int = 4) -> Iterator[float]:
    """The response times of M/M/m, each job on the server that is free first: service takes 1."""
    draw = random.Random(seed)
    free_at = [0.0] * servers
    now = 0.0
    for _ in range(count):
        now += draw.expovariate(load * servers)
        end = max(now, free_at[0]) + draw.expovariate(1)
        heapreplace(free_at, end)
        yield end - now


@pytest.mark.parametrize(
    ("load", "jobs", "measured"), [(0.7, 4000, 0.92), (0.85, 4000, 0.85), (0.85, 24_000, 0.9)]
)
def test_intervals_of_95_percent_cover_m_m_m_as_often_as_is_said_of_them(
    load: float, jobs: int, measured: float
) -> None:
    true = multi_server(load * 4, 1, 4).mean_response
    runs = effort.examples(500_000 // jobs)
    covered = 0
    for seed in range(runs):
        found = BatchMeans()
        for value in responses(seed, jobs, load):
            found.add(value)
        covered += abs(found.mean - true) <= found.half_width(0.95)
    deviation = (measured * (1 - measured) / runs) ** 0.5
    assert abs(covered / runs - measured) <= 4 * deviation
    assert found.half_width(0.5) < 0.5 * found.half_width(0.95)


@pytest.mark.parametrize("policy", [Lazy, Adaptive, Reconfigurable])
def test_for_jobs_of_one_node_all_three_policies_are_m_m_m(policy: type[Lazy]) -> None:
    arrivals = 0.7 * 4 / 10_000
    ends = []
    for each in (Fcfs, policy):
        jobs = replay(exponential_jobs(8, 500, arrivals, 10_000.0), Scheduler(each(Cluster(4))))
        ends.append([(job.id, job.end_s) for job in jobs])
    assert ends[0] == ends[1]
