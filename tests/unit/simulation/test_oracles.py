"""The exact answers of queueing theory, and that the simulator comes to the same."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from random import Random

import pytest
from oracles import (
    even,
    jobs_in_order,
    multi_server,
    saturated_utilization,
    single_server_wait,
    total,
)  # fmt: skip
from saturation import all_at_once, utilization_while_waiting

from kalends.core.errors import InvalidInput
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.grid_spec import grid_from
from kalends.scheduling.job import Components
from kalends.scheduling.policies.ordered.fcfs import Fcfs
from kalends.simulation.co_allocation import drawn, on_partitions, split
from kalends.simulation.job import SimulatedJob

TENS = {1: Fraction(3, 10), 3: Fraction(3, 10), 7: Fraction(4, 10)}
POWERS = {
    size: Fraction(percent, 100)
    for size, percent in zip((1, 2, 8, 16, 32, 64, 128), (20, 10, 10, 20, 20, 15, 5), strict=True)
}


def test_one_server_is_the_textbook_queue() -> None:
    found = multi_server(0.6, 1.0, 1)
    assert found.empty == pytest.approx(0.4)
    assert found.must_wait == pytest.approx(0.6)
    assert found.mean_queue == pytest.approx(0.9)
    assert found.mean_wait == pytest.approx(1.5)
    assert found.mean_response == pytest.approx(2.5)
    assert found.busy_servers == found.utilization == 0.6


def test_eight_servers_wait_as_erlang_says() -> None:
    found = multi_server(6.8, 1.0, 8)
    assert found.must_wait == pytest.approx(0.57257, abs=5e-6)
    assert found.mean_wait == pytest.approx(0.47714, abs=5e-6)


def test_one_server_with_any_service_times_waits_as_pollaczek_and_khinchine_say() -> None:
    exponential = single_server_wait(0.6, 1.0, 2.0)
    assert exponential == pytest.approx(multi_server(0.6, 1.0, 1).mean_wait)
    assert single_server_wait(0.6, 1.0, 1.0) == pytest.approx(exponential / 2)
    draw, wait_s, waited_s = Random(3), 0.0, 0.0
    for _ in range(200_000):
        waited_s += wait_s
        wait_s = max(wait_s + draw.choice((0.5, 2.5)) - draw.expovariate(0.4), 0.0)
    assert waited_s / 200_000 == pytest.approx(single_server_wait(0.4, 1.5, 3.25), rel=0.04)


@pytest.mark.parametrize(
    ("rate", "mean", "square"), [(1.0, 1.0, 2.0), (0.0, 1.0, 2.0), (0.5, 0.0, 0.0), (0.5, 1.0, 0.9)]
)
def test_no_wait_is_told_where_the_queue_grows_for_ever_or_no_times_are_like_that(
    rate: float, mean: float, square: float
) -> None:
    with pytest.raises(InvalidInput, match="a load of"):
        single_server_wait(rate, mean, square)


@pytest.mark.parametrize("servers", [1, 2, 3, 7, 40])
def test_the_queue_keeps_the_balance_of_its_births_and_deaths(servers: int) -> None:
    """By the state probabilities themselves (paper, equations 2 and 8), summed far into the tail."""
    found = multi_server(0.8 * servers * 0.25, 0.25, servers)
    offered, chance = 0.8 * servers, found.empty
    chances = [chance]
    for state in range(1, servers + 400):
        chance *= offered / min(state, servers)
        chances.append(chance)
    assert sum(chances) == pytest.approx(1)
    assert sum(chances[servers:]) == pytest.approx(found.must_wait)
    assert sum(n * p for n, p in enumerate(chances[servers:])) == pytest.approx(found.mean_queue)
    assert sum(min(n, servers) * p for n, p in enumerate(chances)) == pytest.approx(
        found.busy_servers
    )


@pytest.mark.parametrize(
    "wrong", [(1.0, 1.0, 1), (0.0, 1.0, 1), (1.0, float("nan"), 4), (1.0, 1.0, 0)]
)
def test_a_queue_that_never_settles_has_no_answer(wrong: tuple[float, float, int]) -> None:
    with pytest.raises(InvalidInput):
        multi_server(*wrong)


def test_saturated_utilization_is_exact() -> None:
    assert saturated_utilization([2], [even(1, 2)]) == Fraction(6, 7)
    assert float(saturated_utilization([10], [TENS])) == pytest.approx(0.784708, abs=5e-7)
    assert float(saturated_utilization([128], [POWERS])) == pytest.approx(0.675600, abs=5e-7)
    assert saturated_utilization([5], [{1: Fraction(1)}]) == 1
    assert saturated_utilization([5], [{2: Fraction(1)}]) == Fraction(4, 5)


def test_what_co_allocation_costs() -> None:
    components = [even(1, 16)] * 4
    assert float(saturated_utilization([32] * 4, components)) == pytest.approx(0.6201, abs=5e-5)
    assert float(saturated_utilization([128], [total(components)])) == pytest.approx(
        0.8521, abs=5e-5
    )


@pytest.mark.parametrize("nodes", [[3], [4, 3]])
def test_saturated_utilization_is_that_of_all_lines_tried(nodes: list[int]) -> None:
    sizes = {1: Fraction(1, 2), 2: Fraction(1, 3), 3: Fraction(1, 6)}
    jobs = list(product(sizes, repeat=len(nodes)))
    inverse = Fraction()
    for line in product(jobs, repeat=max(nodes)):
        fits = max(
            k for k in range(1, len(line) + 1)
            if all(sum(job[i] for job in line[:k]) <= n for i, n in enumerate(nodes))
        )  # fmt: skip
        chance = Fraction(1)
        for job in line:
            for size in job:
                chance *= sizes[size]
        inverse += chance / fits
    mean = sum(size * chance for size, chance in sizes.items()) * len(nodes)
    assert saturated_utilization(nodes, [sizes] * len(nodes)) == mean / (sum(nodes) * inverse)


@pytest.mark.parametrize(
    "sizes",
    [{}, {0: Fraction(1)}, {5: Fraction(1)}, {1: Fraction(1, 2)}],
    ids=["none", "zero", "too large", "half"],
)
def test_sizes_that_make_no_sense_are_refused(sizes: dict[int, Fraction]) -> None:
    with pytest.raises(InvalidInput):
        jobs_in_order(4, sizes)
    with pytest.raises(InvalidInput):
        saturated_utilization([4, 4], [even(1, 2)])


def measured(
    cluster: Cluster, kind: str, sizes: list[tuple[int, int]], jobs: int = 20_000
) -> float:
    return utilization_while_waiting(
        drawn(all_at_once(jobs, 1_000_000, Random(11)), kind, sizes, Random(12)), Fcfs(cluster)
    )


def test_the_simulator_saturates_where_theory_says() -> None:
    assert measured(Cluster(2), "total", [(1, 2)]) == pytest.approx(6 / 7, rel=0.005)
    exact = float(saturated_utilization([100], [even(1, 100)]))
    assert measured(Cluster(100), "total", [(1, 100)]) == pytest.approx(exact, rel=0.005)


def test_co_allocated_jobs_saturate_a_grid_where_theory_says_and_other_kinds_lie_between() -> None:
    sizes = [(1, 16)] * 4
    ordered = measured(grid_from("grid:32+32+32+32"), "ordered", sizes)
    assert ordered == pytest.approx(0.620088, rel=0.005)
    first, worst = (
        measured(grid_from("grid:32+32+32+32", fit=fit), "unordered", sizes, 4_000)
        for fit in ("first", "worst")
    )
    whole = measured(Cluster(128), "total", sizes)
    assert whole == pytest.approx(0.852107, rel=0.005)
    assert ordered < first < worst < whole


def test_without_a_penalty_total_requests_use_a_grid_as_one_cluster() -> None:
    sizes = [(1, 16)] * 4
    one, grid = Cluster(128), grid_from("grid:32+32+32+32")
    assert measured(one, "total", sizes, 1_000) == measured(grid, "total", sizes, 1_000)


def jobs_of(*nodes: int) -> list[SimulatedJob]:
    return [
        SimulatedJob(id=number, submit_s=0, nodes=count, requested_s=1, run_s=1,
                     line=f"{number} 0 0 1 {count} -1 -1 {count} 1 -1 1 1 1 1 1 {number + 10} -1 -1")
        for number, count in enumerate(nodes)
    ]  # fmt: skip


def test_logs_are_split_into_equal_components_no_larger_than_asked() -> None:
    found = [job.components for job in split(jobs_of(10, 4, 1, 99), "unordered", 4, 3)]
    assert found == [
        Components("unordered", nodes) for nodes in [(4, 3, 3), (4,), (1,), (33, 33, 33)]
    ]
    found = [job.components for job in split(jobs_of(10, 7, 5), "ordered", 4, 3)]
    assert found == [Components("ordered", nodes) for nodes in [(4, 3, 3), (0, 4, 3), (2, 0, 3)]]
    assert [job.components for job in split(jobs_of(10), "total", 4, 3)] == [
        Components("total", (10,))
    ]


def test_a_logs_partition_names_the_cluster() -> None:
    found = [job.components for job in on_partitions(jobs_of(3, 2), {10: 2, 11: 0})]
    assert found == [Components("ordered", (0, 0, 3)), Components("ordered", (2,))]
    with pytest.raises(InvalidInput, match="job 1 names partition 11"):
        list(on_partitions(jobs_of(3, 2), {10: 2}))


def test_absurd_components_are_refused() -> None:
    for wrong in ([(0, 0)], [(3, 2)], [(-1, 2)]):
        with pytest.raises(InvalidInput):
            next(drawn(jobs_of(1), "total", wrong, Random(1)))
    for largest, clusters in ((0, 1), (1, 0)):
        with pytest.raises(InvalidInput):
            next(split(jobs_of(1), "total", largest, clusters))
    with pytest.raises(InvalidInput, match="'any' is not known"):
        next(split(jobs_of(1), "any", 1, 1))
