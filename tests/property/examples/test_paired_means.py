"""Paired means: exact where the truth can be worked out, and intervals that cover it as often as is said."""

from __future__ import annotations

import math
import random
from heapq import heapreplace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import multi_server, single_server_wait
from paired_means import PairedMeans, Ratio
from tests import effort

from kalends.core.errors import InvalidInput

values = st.lists(
    st.tuples(*[st.integers(1, 1000)] * 4), min_size=24, max_size=60
)  # fmt: skip


def filled(
    jobs: list[tuple[int, int, int, int]], size: int, controls: dict[str, float], warm_up: int = 1
) -> PairedMeans:
    names = ("top", "bottom", "one", "other")
    means = PairedMeans(
        [each for each in names if each not in controls], controls, size=size, warm_up=warm_up
    )
    for number, job in enumerate(jobs):
        for of, value in zip(names, job, strict=True):
            means.add(of, number, value)
    means.close(len(jobs))
    return means


@given(values, st.integers(1, 6), st.integers(0, 2))
def test_without_controls_a_ratio_is_that_of_the_sums_of_the_jobs_that_count(
    jobs: list[tuple[int, int, int, int]], size: int, warm_up: int
) -> None:
    means = filled(jobs, size, {}, warm_up)
    counted = jobs[warm_up * size : len(jobs) // size * size]
    found = means.ratio("top", "bottom")
    assert found.value == pytest.approx(sum(j[0] for j in counted) / sum(j[1] for j in counted))
    assert means.mean("one").value == pytest.approx(sum(j[2] for j in counted) / len(counted))
    assert found.freedom == len(counted) // size - 1
    effort.steps["ratios from the sums of all jobs"] += 1


@given(values, st.integers(1, 5), st.floats(-50, 1500), st.floats(-50, 1500))
def test_controls_take_out_what_a_regression_on_them_tells(
    jobs: list[tuple[int, int, int, int]], size: int, one: float, other: float
) -> None:
    """The twin: least squares by NumPy, with an intercept at the true means of the controls."""
    means = filled(jobs, size, {"one": one, "other": other})
    batches = {of: np.array(each) for of, each in means.batches.items()}
    count = len(batches["top"])
    assume(count >= 5)
    design = np.column_stack([np.ones(count), batches["one"] - one, batches["other"] - other])
    assume(np.linalg.cond(design) < 1e6)
    inverse = np.linalg.inv(design.T @ design)
    at_truth = {of: inverse @ design.T @ batches[of] for of in ("top", "bottom")}
    value = at_truth["top"][0] / at_truth["bottom"][0]
    assume(abs(at_truth["bottom"][0]) > 1)
    off = {of: batches[of] - design @ at_truth[of] for of in at_truth}
    linear = (off["top"] - value * off["bottom"]) / at_truth["bottom"][0]
    error = math.sqrt(linear @ linear / (count - 3) * inverse[0, 0])
    found = means.ratio("top", "bottom")
    assert found.value == pytest.approx(value, rel=1e-6, abs=1e-6)
    assert found.standard_error == pytest.approx(error, rel=1e-5, abs=1e-7)
    effort.steps["controlled ratios by least squares"] += 1


@given(values, st.floats(0.5, 3), st.floats(-20, 20))
def test_what_a_control_tells_in_full_is_known_exactly(
    jobs: list[tuple[int, int, int, int]], factor: float, true_mean: float
) -> None:
    means = PairedMeans(["told"], {"control": true_mean}, size=2)
    for number, (value, *_) in enumerate(jobs):
        means.add("control", number, value)
        means.add("told", number, 5000 + factor * value)
    means.close(len(jobs))
    assume(len(set(means.batches["control"])) > 1)
    found = means.mean("told")
    assert found.value == pytest.approx(5000 + factor * true_mean)
    assert found.standard_error == pytest.approx(0, abs=1e-5)


@given(values, st.integers(1, 4))
def test_a_control_that_tells_nothing_new_changes_nothing(
    jobs: list[tuple[int, int, int, int]], size: int
) -> None:
    plain = filled(jobs, size, {"one": 400})
    twice = PairedMeans(["top", "bottom", "other"], {"one": 400, "double": 801}, size=size)
    more = {**plain.batches, "double": [2 * each + 1 for each in plain.batches["one"]]}
    twice.extend(more)
    a, b = plain.ratio("top", "bottom"), twice.ratio("top", "bottom")
    assert (a.value, a.standard_error) == pytest.approx((b.value, b.standard_error))
    assert a.freedom == b.freedom


@given(values, st.floats(0.25, 4))
def test_a_series_that_is_always_so_many_times_another_has_that_ratio_for_sure(
    jobs: list[tuple[int, int, int, int]], factor: float
) -> None:
    means = PairedMeans(["plain", "scaled"], size=3)
    for number, (value, *_) in enumerate(jobs):
        means.add("plain", number, value)
        means.add("scaled", number, factor * value)
    means.close(len(jobs))
    found = means.ratio("scaled", "plain")
    assert found.value == pytest.approx(factor)
    assert found.standard_error == pytest.approx(0, abs=1e-9)


@given(values, st.integers(1, 5), st.randoms(use_true_random=False), st.integers(1, 60))
def test_order_and_later_jobs_do_not_matter_and_runs_add_up(
    jobs: list[tuple[int, int, int, int]], size: int, draw: random.Random, later: int
) -> None:
    means = PairedMeans(["top", "bottom"], size=size)
    for _ in range(2):
        told = [(number, of) for number in range(len(jobs) + later) for of in (0, 1)]
        draw.shuffle(told)
        for number, of in told:
            value = jobs[number][of] if number < len(jobs) else 10**6
            means.add(("top", "bottom")[of], number, value)
        means.close(len(jobs))
    once = filled(jobs, size, {})
    twice = PairedMeans(["top", "bottom", "one", "other"], size=size)
    twice.extend(once.batches)
    twice.extend(once.batches)
    assert means.batches == {of: twice.batches[of] for of in ("top", "bottom")}
    assert means.ratio("top", "bottom") == twice.ratio("top", "bottom")


def test_the_mean_of_one_class_of_jobs_is_a_ratio() -> None:
    means = PairedMeans(["response of few", "few"], size=10)
    for number in range(300):
        if number % 7 == 0:
            means.add("response of few", number, 30 + number % 2)
            means.add("few", number, 1)
    means.close(300)
    found = means.ratio("response of few", "few")
    assert found.value == pytest.approx(30.5, abs=0.02)
    assert found.standard_error < 0.1


def test_a_ratio_is_settled_if_its_error_is_small_and_its_batches_hang_together_no_more() -> None:
    assert Ratio(2.0, 0.02, 60, 0.1).settled(0.01)
    assert not Ratio(2.0, 0.021, 60, 0.1).settled(0.01)
    assert not Ratio(2.0, 0.02, 60, 0.3).settled(0.01)
    assert not Ratio(0.0, 0.02, 60, 0.1).settled(0.01)
    assert Ratio(2.0, 0.02, 60).half_width() == math.inf


def test_what_makes_no_sense_is_refused_and_changes_nothing() -> None:
    for size, warm_up in ((0, 1), (1, -1)):
        with pytest.raises(InvalidInput, match="batches of"):
            PairedMeans(["a"], size=size, warm_up=warm_up)
    means = PairedMeans(["a", "b"], {"c": 1.0}, size=1, warm_up=0)
    for wrong in ({"a": [1.0], "b": [1.0]}, {"a": [1.0], "b": [1.0], "c": []}):
        with pytest.raises(InvalidInput, match="differ in their series"):
            means.extend(wrong)
    with pytest.raises(InvalidInput, match="0 batches"):
        means.mean("a")
    means.add("a", 0, 1.0)
    means.close(1)
    with pytest.raises(InvalidInput, match="1 batches"):
        means.mean("a")
    means.extend({"a": [1.0, 2.0], "b": [0.0, 0.0], "c": [5.0, 6.0]})
    assert means.mean("a").freedom == 1
    with pytest.raises(InvalidInput, match="the mean is 0"):
        means.ratio("a", "b")


SERVERS = 4
FASTER = 1.25


def same_arrivals(seed: int, jobs: int, load: float) -> PairedMeans:
    """M/M/4, and the same jobs on faster servers; the control is one server that is as fast as four."""
    wait = single_server_wait(load * SERVERS, 1 / SERVERS, 2 / SERVERS**2)
    means = PairedMeans(["slow", "fast"], {"one server": wait}, size=jobs // 65)
    draw = random.Random(seed)
    servers = {"slow": (1.0, [0.0] * SERVERS), "fast": (FASTER, [0.0] * SERVERS)}
    now = wait = 0.0
    for number in range(jobs):
        gap, service = draw.expovariate(load * SERVERS), draw.expovariate(1)
        now += gap
        wait = max(wait - gap, 0.0)
        means.add("one server", number, wait)
        wait += service / SERVERS
        for of, (speed, free_at) in servers.items():
            end = max(now, free_at[0]) + service / speed
            heapreplace(free_at, end)
            means.add(of, number, end - now)
    means.close(jobs)
    return means


def without_controls(means: PairedMeans) -> PairedMeans:
    plain = PairedMeans(means.batches, size=means.size)
    plain.extend(means.batches)
    return plain


@pytest.mark.parametrize(
    ("load", "jobs", "measured"), [(0.7, 4000, 0.9), (0.7, 16_000, 0.93), (0.85, 16_000, 0.9)]
)
def test_intervals_of_95_percent_cover_the_ratio_of_two_m_m_4_as_often_as_is_said(
    load: float, jobs: int, measured: float
) -> None:
    slow = multi_server(load * SERVERS, 1, SERVERS).mean_response
    fast = multi_server(load * SERVERS, FASTER, SERVERS).mean_response
    runs = effort.examples(240_000 // jobs)
    covered = 0
    for seed in range(runs):
        found = same_arrivals(seed, jobs, load).ratio("slow", "fast")
        covered += abs(found.value - slow / fast) <= found.half_width()
    deviation = (measured * (1 - measured) / runs) ** 0.5
    assert abs(covered / runs - measured) <= 4 * deviation
    assert found.half_width(0.5) < 0.5 * found.half_width()


def test_pairs_and_controls_each_make_a_ratio_surer() -> None:
    one, other = same_arrivals(1, 16_000, 0.8), same_arrivals(2, 16_000, 0.8)
    plain = without_controls(one)
    unpaired = PairedMeans(["slow", "fast"], size=one.size)
    unpaired.extend({"slow": one.batches["slow"], "fast": other.batches["fast"]})
    errors = [each.ratio("slow", "fast").relative_error for each in (unpaired, plain, one)]
    assert errors[0] > 1.5 * errors[1] > 2 * errors[2]
    true = multi_server(0.8 * SERVERS, 1, SERVERS).mean_response
    assert one.mean("slow").relative_error < 0.5 * plain.mean("slow").relative_error
    assert one.mean("slow").value == pytest.approx(true, rel=0.04)
