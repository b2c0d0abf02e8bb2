"""Generated workloads: their distributions, their load, their grammar, their repeatability."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable
from random import Random
from statistics import fmean, pvariance
from typing import Any

import pytest

from kalends.core.errors import InvalidInput
from kalends.simulation.job import SimulatedJob
from kalends.simulation.workloads.distributions import distribution, gamma, normal
from kalends.simulation.workloads.generators import ROUND_S, generate, requested_times
from kalends.simulation.workloads.lublin import (
    ALL,
    BATCH,
    INTERACTIVE,
    SLOTS,
    LublinParameters,
    arrivals,
    cycle,
    run_time_of,
    size_of,
)

DRAWS = 20_000


def drawn(text: str, seed: int = 1) -> list[float]:
    draw, random = distribution(text, "test").draw, Random(seed)
    return [draw(random) for _ in range(DRAWS)]


@pytest.mark.parametrize(
    ("text", "mean", "variance"),
    [
        ("7", 7, 0),
        ("const(7)", 7, 0),
        ("uniform(1,64)", 32.5, (64**2 - 1) / 12),
        ("exp(170)", 170, 170**2),
        ("lognormal(100,0.5)", 100 * math.exp(0.125), 1e4 * (math.exp(0.25) - 1) * math.exp(0.25)),
        ("gamma(0.5,10)", 5, 50),
        ("gamma(4.2,0.94)", 4.2 * 0.94, 4.2 * 0.94**2),
        ("hyperexp(0.9,10,1000)", 109, 2 * (0.9 * 100 + 0.1 * 1e6) - 109**2),
        ("choice(1,2,10,1,100,1)", 28, 0.5 + 25 + 2500 - 28**2),
    ],
)
def test_distributions_have_their_mean_and_variance(
    text: str, mean: float, variance: float
) -> None:
    values = drawn(text)
    standard_error = math.sqrt(variance / DRAWS)
    assert abs(fmean(values) - mean) <= 4 * standard_error
    assert pvariance(values) == pytest.approx(variance, rel=0.15)


def distance(values: list[float], cdf: Callable[[float], float]) -> float:
    """The statistic of Kolmogorov and Smirnov."""
    values = sorted(values)
    count = len(values)
    return max(
        max(cdf(value) - index / count, (index + 1) / count - cdf(value))
        for index, value in enumerate(values)
    )


ONE_IN_A_THOUSAND = 1.95 / math.sqrt(DRAWS)


def test_exponential_normal_and_gamma_draws_follow_their_laws() -> None:
    random = Random(7)
    normals = [normal(random) for _ in range(DRAWS)]
    erlang = [gamma(random, 3.0, 2.0) for _ in range(DRAWS)]
    assert distance(drawn("exp(170)"), lambda x: 1 - math.exp(-x / 170)) < ONE_IN_A_THOUSAND
    assert distance(normals, lambda x: 0.5 * math.erfc(-x / math.sqrt(2))) < ONE_IN_A_THOUSAND
    assert (
        distance(erlang, lambda x: 1 - math.exp(-x / 2) * (1 + x / 2 + x * x / 8))
        < ONE_IN_A_THOUSAND
    )


def made(spec: str, **options: Any) -> list[SimulatedJob]:
    return list(generate(spec, **{"jobs": DRAWS, "nodes": 64, "seed": 3, **options}))


def test_poisson_gaps_are_exponential_and_uniform_gaps_uniform() -> None:
    poisson = made("poisson:interarrival=1000")
    gaps = [float(b.submit_s - a.submit_s) for a, b in itertools.pairwise(poisson)]
    assert distance(gaps, lambda x: 1 - math.exp(-x / 1000)) < ONE_IN_A_THOUSAND + 1e-3
    even = made("uniform:interarrival=1000")
    gaps = [float(b.submit_s - a.submit_s) for a, b in itertools.pairwise(even)]
    assert distance(gaps, lambda x: min(max(x / 2000, 0), 1)) < ONE_IN_A_THOUSAND + 1e-3


@pytest.mark.parametrize("spec", ["poisson", "uniform", "lublin", "lublin:jobs=all"])
@pytest.mark.parametrize("load", [0.3, 0.95])
def test_the_load_offered_is_the_load_asked_for(spec: str, load: float) -> None:
    jobs = made(spec, load=load, jobs=3_000)
    work = sum(job.nodes * job.run_s for job in jobs)
    assert work / (64 * jobs[-1].submit_s) == pytest.approx(load, rel=1e-3)


@pytest.mark.parametrize(
    "spec", ["poisson:estimates=f(10)", "uniform", "lublin:estimates=round(4)"]
)
def test_jobs_come_in_order_whole_and_possible(spec: str) -> None:
    jobs = made(spec, jobs=2_000, load=0.7)
    assert [job.id for job in jobs] == list(range(1, 2_001))
    assert sorted(job.submit_s for job in jobs) == [job.submit_s for job in jobs]
    for job in jobs:
        assert 1 <= job.nodes <= 64
        assert 1 <= job.run_s <= job.requested_s
        assert {type(job.submit_s), type(job.run_s), type(job.requested_s), type(job.nodes)} == {
            int
        }


def test_the_same_seed_gives_the_same_bytes_on_any_hash_seed_and_another_seed_others() -> None:
    script = (
        "from kalends.simulation.workloads.generators import generate\n"
        "for spec in ('poisson:estimates=round(3)', 'lublin'):\n"
        "    print(*generate(spec, jobs=200, nodes=128, seed={}, load=0.8), sep='\\n')"
    )

    def printed(hash_seed: str, seed: int) -> bytes:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", script.format(seed)],
            env=environment, capture_output=True, check=True,
        )  # fmt: skip
        return done.stdout

    assert printed("1", 5) == printed("2", 5) != printed("1", 6)


def test_a_seed_stands_for_these_jobs_for_ever() -> None:
    jobs = made("lublin:estimates=round(2)", jobs=5, nodes=128, seed=42)
    assert [(job.submit_s, job.nodes, job.run_s, job.requested_s) for job in jobs] == [
        (109, 2, 12, 60),
        (276, 4, 20, 60),
        (282, 2, 46, 120),
        (376, 1, 29883, 86400),
        (383, 32, 4, 60),
    ]


def log_runs(parameters: LublinParameters, size: int) -> list[float]:
    random = Random(11)
    return [math.log(run_time_of(parameters, size, random)) for _ in range(DRAWS)]


@pytest.mark.parametrize("size", [1, 32, 128])
@pytest.mark.parametrize("parameters", [BATCH, ALL], ids=["batch", "all"])
def test_lublin_run_times_have_the_published_mean_logarithm(
    parameters: LublinParameters, size: int
) -> None:
    share = parameters.slope * size + parameters.intercept
    short, long = parameters.alpha_1 * parameters.beta_1, parameters.alpha_2 * parameters.beta_2
    mean = share * short + (1 - share) * long
    # What lies above the longest run time is drawn again: a little less than without.
    assert mean - 0.15 < fmean(log_runs(parameters, size)) < mean + 0.05


def test_wider_jobs_run_longer() -> None:
    means = [fmean(log_runs(ALL, size)) for size in (1, 16, 64, 128)]
    assert means == sorted(means)
    assert means[-1] - means[0] > 1


@pytest.mark.parametrize("parameters", [BATCH, INTERACTIVE, ALL], ids=["batch", "inter", "all"])
def test_lublin_sizes_have_the_published_shares_and_mean_logarithm(
    parameters: LublinParameters,
) -> None:
    random = Random(13)
    sizes = [size_of(parameters, 128, random) for _ in range(DRAWS)]
    serial = sizes.count(1) / DRAWS
    assert serial == pytest.approx(parameters.serial_share, abs=0.05)
    others = 1 - parameters.serial_share - parameters.power_of_two_share
    assert sum(size & (size - 1) > 0 for size in sizes) / DRAWS <= others
    logs = [math.log2(size) for size in sizes if size > 1]
    low = parameters.low_share
    mean = (
        low * parameters.log_least + parameters.log_middle + (1 - low) * parameters.log_most
    ) / 2
    assert fmean(logs) == pytest.approx(mean, abs=0.12)
    assert max(sizes) <= 2**parameters.log_most + 1


@pytest.mark.parametrize("nodes", [1, 2, 3, 8, 100, 1024])
def test_lublin_sizes_fit_any_machine(nodes: int) -> None:
    sizes = [job.nodes for job in made("lublin", nodes=nodes, jobs=500)]
    assert 1 <= min(sizes) <= max(sizes) <= nodes
    assert max(sizes) > nodes // 8


def test_lublin_arrivals_follow_the_daily_cycle() -> None:
    weights = cycle(ALL)
    assert sum(weights) == pytest.approx(SLOTS)
    assert weights.index(max(weights)) in range(24, 34)
    assert weights.index(min(weights)) in range(8, 13)
    counts = [0] * SLOTS
    stream = arrivals(ALL, Random(17))
    for _ in range(DRAWS):
        counts[int(next(stream) // 1_800) % SLOTS] += 1
    for count, weight in zip(counts, weights, strict=True):
        expected = weight * DRAWS / SLOTS
        assert abs(count - expected) < 6 * math.sqrt(expected) + 0.1 * expected


def test_batch_and_interactive_jobs_arrive_side_by_side() -> None:
    jobs = made("lublin", jobs=2_000)
    assert 100 < sum(not job.interactive for job in jobs) < 1_900
    assert not any(job.interactive for job in made("lublin:jobs=batch", jobs=100))
    assert all(job.interactive for job in made("lublin:jobs=interactive", jobs=100))


def test_requested_times_follow_their_models() -> None:
    random = Random(19)
    assert requested_times("exact")(77, random) == 77
    stretched = [requested_times("f(4)")(1_000, random) for _ in range(DRAWS)]
    assert distance([float(x) for x in stretched], lambda x: (x - 1_000) / 4_000) < 0.02
    rounded = requested_times("round(0)")
    assert [rounded(run_s, random) for run_s in (1, 60, 61, 3_601)] == [60, 60, 120, 7_200]
    assert rounded(ROUND_S[-1] + 1, random) == 4 * 86_400


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("", "unknown workload ''"),
        ("poison", "unknown workload 'poison'"),
        ("poisson:", None),
        ("poisson:run=exp(1),run=exp(2)", "given twice"),
        ("poisson:jobs=all", "no option 'jobs'"),
        ("poisson:run", "'run' cannot be read"),
        ("poisson:run=exp(1)nodes=2", "cannot be read"),
        ("poisson:run=exp(", "cannot be read"),
        ("poisson:run=expo(1)", "unknown distribution 'expo'"),
        ("poisson:run=exp(0)", "does not fit exp(MEAN)"),
        ("poisson:run=exp(1,2)", "does not fit"),
        ("poisson:run=exp(-1)", "cannot be read"),
        ("poisson:run=uniform(3,1)", "does not fit"),
        ("poisson:run=choice(1,0)", "does not fit"),
        ("poisson:run=const(999999999999)", "does not fit"),
        ("poisson:nodes=uniform(1,65)", "uniform(1,65) on 64 nodes"),
        ("poisson:interarrival=exp(3)", "is not a mean gap"),
        ("poisson:interarrival=0", "is not a mean gap"),
        ("poisson:estimates=good", "is not a model of estimates"),
        ("lublin:jobs=some", "'some'"),
    ],
)
def test_what_is_no_workload_is_refused_before_the_first_job(spec: str, said: str | None) -> None:
    if said is None:
        assert made(spec, jobs=1)
        return
    with pytest.raises(InvalidInput) as caught:
        generate(spec, jobs=1, nodes=64, seed=1)
    assert said in caught.value.detail
    assert caught.value.remedy


@pytest.mark.parametrize(
    "options", [{"jobs": 0}, {"jobs": 10**9}, {"nodes": 0}, {"load": 0}, {"load": float("nan")}]
)
def test_absurd_numbers_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(options))):
        generate("poisson", **{"jobs": 1, "nodes": 64, "seed": 1, **options})
