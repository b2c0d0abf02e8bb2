"""Metrics by class of job, beside the jobs of each class picked out and measured by the formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, fsum, isclose, log2
from statistics import fmean, median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.core.errors import InvalidInput
from kalends.simulation import classes
from kalends.simulation.classes import KINDS, Breakdown, ClassMetrics
from kalends.simulation.job import SimulatedJob
from kalends.simulation.metrics import ScheduleMetrics

Drawn = tuple[int, int, int, int, int, int, int]


def ended(order: int, drawn: Drawn) -> SimulatedJob:
    submit_s, wait, run, nodes, user, priority, queue = drawn
    line = f"{order} 0 -1 1 1 -1 -1 1 1 -1 1 {user} {user % 3} -1 {queue} -1 -1 -1"
    return SimulatedJob(
        order, submit_s, nodes, run + 5, priority, user, order=order, start_s=submit_s + wait,
        end_s=submit_s + wait + run, line=line,
    )  # fmt: skip


def slow_class(name: str, jobs: Sequence[SimulatedJob], node_span: int) -> ClassMetrics:
    waits = sorted(job.start_s - job.submit_s for job in jobs)
    node_s = sum(job.nodes * (job.end_s - job.start_s) for job in jobs)
    return ClassMetrics(
        name=name,
        jobs=len(jobs),
        mean_wait_s=fmean(waits),
        median_wait_s=float(median(waits)),
        p95_wait_s=waits[ceil(len(jobs) * 95 / 100) - 1],
        max_wait_s=max(waits),
        mean_response_s=fmean(job.end_s - job.submit_s for job in jobs),
        mean_bounded_slowdown=fmean(
            max(1, (job.end_s - job.submit_s) / max(job.end_s - job.start_s, 10)) for job in jobs
        ),
        node_seconds=node_s,
        utilization=node_s / node_span,
    )


def slow_time(length_s: int) -> str:
    borders = ((60, "<1m"), (600, "1m-10m"), (3600, "10m-1h"), (4 * 3600, "1h-4h"),
               (12 * 3600, "4h-12h"), (24 * 3600, "12h-1d"), (72 * 3600, "1d-3d"))  # fmt: skip
    return next((name for border_s, name in borders if length_s < border_s), ">=3d")


def slow_nodes(nodes: int) -> str:
    most = 2 ** ceil(log2(nodes))
    return str(nodes) if nodes <= 2 else f"{most // 2 + 1}-{most}"


SLOW: dict[str, Callable[[SimulatedJob], str]] = {
    "nodes": lambda job: slow_nodes(job.nodes),
    "run_time": lambda job: slow_time(job.end_s - job.start_s),
    "requested_time": lambda job: slow_time(job.requested_s),
    "priority": lambda job: str(job.priority),
    "user": lambda job: "unknown" if job.user == -1 else str(job.user),
    "group": lambda job: str(job.user % 3),
    "queue": lambda job: job.line.split()[14].replace("-1", "unknown"),
    "partition": lambda job: "unknown",
}
times = st.one_of(st.integers(0, 90), st.integers(0, 10**6))
drawn_jobs = st.lists(
    st.tuples(times, times, times, st.integers(1, 70), st.integers(-1, 4), st.integers(0, 3),
              st.integers(-1, 3)),
    min_size=1, max_size=40,
)  # fmt: skip


@settings(max_examples=effort.examples(100), deadline=None)
@given(drawn_jobs)
def test_every_class_of_every_kind_has_the_metrics_of_its_jobs(drawn: list[Drawn]) -> None:
    jobs = [ended(order, each) for order, each in enumerate(sorted(drawn))]
    breakdown, metrics = Breakdown(list(KINDS)), ScheduleMetrics(70)
    for job in jobs:
        breakdown.add(job)
        metrics.add(job)
    whole = metrics.summary()
    found = breakdown.metrics(70, whole.makespan_s)
    assert list(found) == list(SLOW)
    for kind, of in SLOW.items():
        slow = {}
        for name in {of(job) for job in jobs}:
            inside = [job for job in jobs if of(job) == name]
            slow[name] = slow_class(name, inside, 70 * (whole.makespan_s or 1))
        assert {each.name for each in found[kind]} == set(slow), kind
        for each in found[kind]:
            for field in ClassMetrics.__struct_fields__:
                fast, exact = getattr(each, field), getattr(slow[each.name], field)
                assert fast == exact or isclose(fast, exact, rel_tol=1e-12), (kind, field)
        assert sum(each.jobs for each in found[kind]) == whole.jobs
        assert isclose(fsum(each.utilization for each in found[kind]), whole.utilization)
    for kind in ("user", "group", "queue", "partition"):
        most = [each.node_seconds for each in found[kind]]
        assert most == sorted(most, reverse=True)
    effort.steps["metrics by class"] += len(jobs) * len(KINDS)


def test_classes_with_an_order_of_their_own_come_in_it() -> None:
    breakdown = Breakdown(["nodes", "run_time", "priority"])
    for order, scale in enumerate((10**6, 100, 1, 4000)):
        breakdown.add(ended(order, (0, 0, scale, min(scale, 4000), 1, scale % 7, 1)))
    found = breakdown.metrics(4000, 10**6)
    assert [each.name for each in found["nodes"]] == ["1", "65-128", "2049-4096"]
    assert [each.name for each in found["run_time"]] == ["<1m", "1m-10m", "1h-4h", ">=3d"]
    assert [each.name for each in found["priority"]] == ["1", "2", "3"]


def test_a_job_without_a_line_of_a_log_has_no_queue() -> None:
    job = ended(0, (0, 0, 1, 1, 1, 1, 1))
    job.line = ""
    with pytest.raises(InvalidInput, match="only jobs of a log have a queue"):
        Breakdown(["queue"]).add(job)
    with pytest.raises(InvalidInput, match="unknown job class 'colour'"):
        Breakdown(["colour"])


def test_there_is_an_end_to_the_number_of_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "CLASSES_MAX", 3)
    breakdown = Breakdown(["user"])
    for user in (1, 2, 3, 1):
        breakdown.add(ended(user, (0, 0, 1, 1, user, 0, 0)))
    with pytest.raises(InvalidInput, match="more than 3 classes of jobs by user"):
        breakdown.add(ended(9, (0, 0, 1, 1, 4, 0, 0)))


@pytest.mark.parametrize("border_s", [60, 600, 3600, 14_400, 43_200, 86_400, 259_200])
def test_a_class_of_time_begins_at_its_border(border_s: int) -> None:
    breakdown = Breakdown(["run_time"])
    for order, run_s in enumerate((border_s - 1, border_s)):
        breakdown.add(ended(order, (0, 0, run_s, 1, 1, 1, 1)))
    found = breakdown.metrics(1, 1)["run_time"]
    assert [each.name for each in found] == [slow_time(border_s - 1), slow_time(border_s)]
