"""Malleable jobs do all their work, and LS, AS and RS do what their slow twins do."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort
from tests.malleable_twin import Twin, TwinJob, walk

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import HeldSize, Job, Moldability, until_after_change
from kalends.scheduling.policies.moldable.moldable import Adaptive, Lazy
from kalends.scheduling.policies.moldable.reconfigurable import Reconfigurable
from kalends.scheduling.reservations import Reservation
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.kernel import replay
from kalends.simulation.malleable import Course, MalleableJob

NODES = 8
POLICIES = {"lazy": Lazy, "adaptive": Adaptive, "reconfigurable": Reconfigurable}


@given(
    st.lists(st.integers(1, 100), min_size=2, max_size=2), st.integers(0, 20),
    st.integers(0, 100), st.integers(0, 9), st.integers(1, 30),
)  # fmt: skip
def test_a_change_of_size_leaves_as_much_time_as_before_for_the_end(
    times_s: list[int], waited_s: int, left_s: int, took_s: int, ending_s: int
) -> None:
    def until_s(ending_s: int) -> int:
        job = Job(1, 0, 1, times_s[0] + ending_s, ending_s=ending_s, target=2)
        job.molds = Moldability((1, 2), tuple(each + ending_s for each in times_s), True, 9)
        job.before = HeldSize(1, None, waited_s + min(left_s, times_s[0]) + ending_s, waited_s)
        return until_after_change(job, took_s, waited_s + took_s)

    assert until_s(ending_s) == until_s(0) + ending_s


@st.composite
def courses(draw: st.DrawFn, longest_s: int = 60) -> Course:
    sizes = sorted(draw(st.sets(st.sampled_from([1, 2, 3, 4, 6, 8]), min_size=1, max_size=5)))
    times = st.lists(st.integers(0, 5), min_size=len(sizes), max_size=len(sizes)).map(tuple)
    work_s = draw(st.integers(1, longest_s))
    falling = tuple(max(work_s // size + draw(st.integers(0, 3)), 1) for size in sizes)
    any_times = draw(
        st.lists(st.integers(1, longest_s), min_size=len(sizes), max_size=len(sizes)).map(tuple)
    )
    reconfiguration_s = draw(st.integers(0, 6))
    return Course(
        sizes=tuple(sizes),
        solution_s=draw(st.sampled_from([falling, falling, any_times])),
        setup_s=draw(st.one_of(st.just(()), times)),
        summary_s=draw(st.one_of(st.just(()), times)),
        iterations=draw(st.integers(1, 30)),
        every=draw(st.integers(1, 6)),
        reconfiguration_s=reconfiguration_s,
        redistribution_s=draw(st.integers(0, reconfiguration_s)),
    )


@st.composite
def workloads(draw: st.DrawFn) -> list[TwinJob]:
    jobs, submit_s = [], 0
    for number in range(draw(st.integers(1, 9))):
        submit_s += draw(st.sampled_from([0, 0, 1, 2, 5, 11, 30]))
        malleable = draw(st.sampled_from([True, True, True, False]))
        spare_s = draw(st.sampled_from([0, 0, 0, 7]))
        jobs.append(TwinJob(number, submit_s, draw(courses()), malleable, spare_s))
    return jobs


def simulated(jobs: list[TwinJob]) -> list[MalleableJob]:
    return [
        MalleableJob(
            job.number, job.submit_s, job.course.sizes[0],
            job.time_on(job.course.sizes[0]) + job.spare_s,
            molds=job.course.molds(malleable=job.malleable, spare_s=job.spare_s), course=job.course,
        )
        for job in jobs
    ]  # fmt: skip


class Watched(Cluster):
    """Writes down who holds how many nodes from when on, and sees that nobody holds what there is not."""

    def __init__(self, nodes: int, reservations: list[Reservation] | None = None) -> None:
        super().__init__(nodes, reservations or ())
        self.log: dict[int, list[tuple[int, int]]] = {}
        self.orders: dict[int, list[tuple[int, int]]] = {}
        self.now = 0

    def start(self, job: Job, now: int) -> bool:
        started = super().start(job, now)
        if started:
            assert job.molds is not None
            assert job.granted in job.molds.sizes
            self._note(job, now, job.granted)
        return started

    def resize(self, job: Job, nodes: int, now: int) -> bool:
        before = job.granted
        asked = super().resize(job, nodes, now)
        if asked:
            self.orders.setdefault(job.id, []).append((now, nodes))
            if job.granted != before:
                self._note(job, now, job.granted)
        return asked

    def _note(self, job: Job, now: int, nodes: int) -> None:
        self.log.setdefault(job.id, []).append((now, nodes))


class WatchedScheduler(Scheduler):
    def end(self, job: Job, now: int) -> Any:
        self.watched._note(job, now, 0)
        return super().end(job, now)

    def resized(self, job: Job, now: int, until_s: int) -> Any:
        if job.granted != job.target:
            self.watched._note(job, now, job.target)
        return super().resized(job, now, until_s)

    @property
    def watched(self) -> Watched:
        assert isinstance(self.cluster, Watched)
        return self.cluster


def played(jobs: list[MalleableJob], policy: Any) -> list[MalleableJob]:
    ended = list(replay(jobs, WatchedScheduler(policy)))
    assert len(ended) == len(jobs)
    assert policy.cluster.free == policy.cluster.nodes
    return [job for job in ended if isinstance(job, MalleableJob)]


def levels(log: dict[int, list[tuple[int, int]]]) -> list[tuple[int, int]]:
    """(time, nodes held by all when that second is over), by time."""
    changes: dict[int, int] = {}
    for steps in log.values():
        before = 0
        for time, nodes in steps:
            changes[time] = changes.get(time, 0) + nodes - before
            before = nodes
    level, found = 0, []
    for time in sorted(changes):
        level += changes[time]
        found.append((time, level))
    return found


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=effort.examples(40))
@given(workloads(), st.integers(0, 5))
def test_starts_sizes_and_changes_are_those_of_the_slow_twin(
    name: str, jobs: list[TwinJob], interval: int
) -> None:
    cluster = Watched(NODES)
    policy: Any = POLICIES[name](cluster)
    policy.interval = interval
    ended = played(simulated(jobs), policy)
    twin = Twin(name, NODES, jobs, interval)
    twin.play()
    for job in jobs:
        assert cluster.log[job.number] == job.log
        assert cluster.orders.get(job.number, []) == job.orders
    for job in ended:
        walked = jobs[job.id].walked()
        assert job.end_s == walked.end_s
        assert job.changes == len(walked.changes)
        effort.steps[f"{name} over malleable jobs"] += 1


@settings(max_examples=effort.examples(100))
@given(
    courses(longest_s=200),
    st.integers(0, 40),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 4)), max_size=12),
    st.integers(0, 4),
)
def test_work_is_conserved_over_any_changes_as_iteration_after_iteration_shows(
    course: Course, start_s: int, asked: list[tuple[int, int]], first: int
) -> None:
    cluster = Cluster(NODES)
    size = course.sizes[first % len(course.sizes)]
    job = MalleableJob(1, start_s, size, 0, molds=course.molds(malleable=True), course=course)
    job.requested_s = job.molds.requested_on(size) if job.molds else 0
    job.order = 0
    assert cluster.start(job, start_s)
    job.reckon(start_s)
    cluster.touched.clear()
    orders, now = [], start_s
    for gap_s, wanted in asked:
        now += gap_s
        if job.target and 0 <= job.change_s <= now:
            cluster.resized(job, job.changed(job.change_s))
        if now >= job.end_s:
            break
        if cluster.resize(job, course.sizes[wanted % len(course.sizes)], now):
            orders.append((now, job.target))
            job.reckon(now)
            cluster.touched.clear()
            assert max(job.change_s, 0) < job.until_s
    if job.target and job.change_s >= 0:
        cluster.resized(job, job.changed(job.change_s))
    twin = walk(course, start_s, size, orders)
    assert sum(twin.iterations) == course.iterations
    assert job.end_s == twin.end_s <= job.until_s
    assert job.changes == len(twin.changes)
    effort.steps["malleable jobs by single iterations"] += 1


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=effort.examples(25))
@given(
    workloads(),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40), st.integers(1, 4)), max_size=2),
)
def test_never_more_nodes_are_held_than_are_free_of_reservations(
    name: str, jobs: list[TwinJob], reserved: list[tuple[int, int, int]]
) -> None:
    reservations = [
        Reservation(start_s, start_s + length_s, nodes) for start_s, length_s, nodes in reserved
    ]
    cluster = Watched(NODES, reservations)
    ended = played(simulated(jobs), POLICIES[name](cluster))
    for job in ended:
        assert job.start_s >= job.submit_s
        held = cluster.log[job.id]
        assert job.node_seconds() == sum(
            nodes * (after - time) for (time, nodes), (after, _) in pairwise(held)
        )
    steps = levels(cluster.log)
    times = {time for time, _ in steps} | {each.start_s for each in reservations}
    for time in sorted(times):
        level = [nodes for since, nodes in steps if since <= time][-1:]
        taken = sum(each.nodes for each in reservations if each.start_s <= time < each.end_s)
        assert (level[0] if level else 0) + taken <= NODES


@settings(max_examples=effort.examples(25))
@given(workloads(), st.integers(2, 20))
def test_the_interval_between_changes_of_a_job_is_kept_and_all_is_the_same_again(
    jobs: list[TwinJob], interval: int
) -> None:
    logs = []
    for _ in range(2):
        cluster = Watched(NODES)
        ended = played(simulated(jobs), Reconfigurable(cluster, interval))
        logs.append((cluster.log, cluster.orders, [(job.id, job.end_s) for job in ended]))
    assert logs[0] == logs[1]
    for number, orders in cluster.orders.items():
        apart_s = interval * jobs[number].course.reconfiguration_s
        for (before, _), (after, size) in pairwise(orders):
            assert after - before >= apart_s
            assert size in jobs[number].course.sizes
