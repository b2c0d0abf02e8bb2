"""Grids: every place is a good one, no cluster is ever overfull, and the twins agree to the second."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort
from tests.property.scheduling.grid_twin import Rules, Twin, every_place, naive_place

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.grid import Grid
from kalends.scheduling.job import Components, Job
from kalends.scheduling.placement import ClusterSpec, CrossingPenalty, GridPart, Placer
from kalends.scheduling.policy import Policy
from kalends.scheduling.registry import POLICIES, policy_maker
from kalends.scheduling.reservations import Reservation
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay

SHARES = st.sampled_from([Fraction(0), Fraction(1, 4), Fraction(1, 2)])


@st.composite
def some_rules(draw: st.DrawFn, *, reserved: bool = False) -> Rules:
    nodes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    speeds = draw(st.sampled_from([(1, 1, 1), (1, 1, Fraction(1, 2)), (2, 1, Fraction(1, 2))]))
    return Rules(
        nodes=nodes,
        speeds=tuple(map(Fraction, speeds[: len(nodes)])),
        once=draw(SHARES),
        each=draw(SHARES),
        fit=draw(st.sampled_from(["worst", "first"])),
        undivided=draw(st.sampled_from(["total", "single"])),
        reservations=fitting(nodes, draw(st.lists(some_reservation(nodes), max_size=4)))
        if reserved
        else (),
    )


def fitting(
    nodes: tuple[int, ...], wanted: list[tuple[int, Reservation]]
) -> tuple[tuple[int, Reservation], ...]:
    """Those reservations for which there is room beside the earlier ones."""
    kept: list[tuple[int, Reservation]] = []
    for part, new in wanted:
        crowd = sum(
            at == part and old.start_s < new.end_s and new.start_s < old.end_s for at, old in kept
        )
        if crowd < nodes[part]:
            kept.append((part, new))
    return tuple(kept)


@st.composite
def some_reservation(draw: st.DrawFn, nodes: tuple[int, ...]) -> tuple[int, Reservation]:
    part, start_s = draw(st.integers(0, len(nodes) - 1)), draw(st.integers(0, 30))
    return part, Reservation(start_s, start_s + draw(st.integers(1, 12)), 1)


@st.composite
def some_job(draw: st.DrawFn, rules: Rules, name: int, submit_s: int) -> SimulatedJob | None:
    kind = draw(st.sampled_from(["", "total", "ordered", "unordered"]))
    if kind in {"ordered", "unordered"}:
        nodes = tuple(draw(st.integers(0, most)) for most in rules.nodes)
    else:
        nodes = (draw(st.integers(1, sum(rules.nodes))),)
    run_s = draw(st.integers(1, 8))
    job = SimulatedJob(
        id=name, submit_s=submit_s, nodes=sum(nodes), requested_s=run_s + draw(st.integers(0, 4)),
        run_s=run_s, priority=draw(st.integers(0, 2)), components=Components(kind, nodes) if kind else None,
    )  # fmt: skip
    return job if job.nodes and every_place(rules, job, rules.nodes) else None


@st.composite
def some_log(draw: st.DrawFn, rules: Rules) -> list[SimulatedJob]:
    jobs, submit_s = [], 0
    for name in range(draw(st.integers(1, 12))):
        submit_s += draw(st.sampled_from([0, 0, 1, 3]))
        job = draw(some_job(rules, name, submit_s))
        if job is not None:
            jobs.append(job)
    return jobs


def grid_of(rules: Rules) -> Grid:
    kept: dict[int, list[Reservation]] = {}
    for part, each in rules.reservations:
        kept.setdefault(part, []).append(each)
    return Grid(
        [
            ClusterSpec((GridPart(n, float(s)),))
            for n, s in zip(rules.nodes, rules.speeds, strict=True)
        ],
        kept,
        crossing=CrossingPenalty(float(rules.once), float(rules.each)),
        fit=rules.fit,
        undivided=rules.undivided,
    )


def copies(jobs: list[SimulatedJob]) -> list[SimulatedJob]:
    return [msgspec.structs.replace(job) for job in jobs]


@settings(max_examples=effort.examples(150), deadline=None)
@given(st.data())
def test_a_job_is_placed_whenever_there_is_a_place_and_where_the_rules_prefer(
    data: st.DataObject,
) -> None:
    rules = data.draw(some_rules())
    job = data.draw(some_job(rules, 1, 0))
    free = [data.draw(st.integers(0, nodes)) for nodes in rules.nodes]
    if job is None:
        return
    assert grid_of(rules).placer.place(job, free) == naive_place(rules, job, free)
    effort.steps["places of jobs in a grid"] += 1


@settings(max_examples=effort.examples(80), deadline=None)
@given(st.data())
def test_parts_of_one_cluster_are_filled_fastest_first_and_never_beyond_what_is_free(
    data: st.DataObject,
) -> None:
    part = st.builds(GridPart, st.integers(1, 3), st.sampled_from([0.5, 1.0, 2.0]))
    clusters = data.draw(
        st.lists(
            st.lists(part, min_size=1, max_size=3).map(tuple).map(ClusterSpec),
            min_size=1,
            max_size=3,
        )
    )
    placer = Placer(clusters, CrossingPenalty(), "worst", "total")
    free = [data.draw(st.integers(0, each.nodes)) for each in placer.parts]
    placed = placer.place(Job(1, 0, data.draw(st.integers(1, sum(free) or 1)), 1), free)
    if placed is None:
        assert not any(free)
        return
    assert all(0 <= taken <= has for taken, has in zip(placed, free, strict=True))
    index = 0
    for cluster in clusters:
        span = range(index, index + len(cluster.parts))
        index = span.stop
        for fast in span:
            for slow in span:
                if placer.parts[fast].speed > placer.parts[slow].speed and placed[slow]:
                    assert placed[fast] == free[fast]


@pytest.mark.parametrize("reserved", [False, True])
@pytest.mark.parametrize("name", ["fcfs", "easy", "conservative"])
@settings(max_examples=effort.examples(50), deadline=None)
@given(data=st.data())
def test_a_grid_starts_every_job_when_and_where_its_slow_twin_does(
    name: str, reserved: bool, data: st.DataObject
) -> None:
    rules = data.draw(some_rules(reserved=reserved))
    jobs = data.draw(some_log(rules))
    twin = Twin(rules, name).replay(copies(jobs))
    ended = replay(copies(jobs), Scheduler(policy_maker(name)(grid_of(rules))))
    assert {job.id: (job.start_s, job.placed) for job in ended} == twin
    effort.steps[f"logs over a grid, {name}"] += 1


@settings(max_examples=effort.examples(40), deadline=None)
@given(st.data())
def test_a_grid_of_one_cluster_is_that_cluster_under_every_policy(data: st.DataObject) -> None:
    rules = Rules((4,), (Fraction(1),), Fraction(0), Fraction(0), "worst", "total")
    kept = [
        each for _, each in fitting((4,), data.draw(st.lists(some_reservation((4,)), max_size=3)))
    ]
    jobs = data.draw(some_log(rules))
    for info in POLICIES:
        make = policy_maker(f"{info.name}:50" if info.number else info.name)
        starts = [
            [
                (job.id, job.start_s, job.end_s)
                for job in replay(copies(jobs), Scheduler(make(each)))
            ]
            for each in (Cluster(4, kept), Grid([ClusterSpec.of(4)], {0: kept}))
        ]
        assert starts[0] == starts[1], info.name


class Watched(Scheduler):
    """Notes who ran where, and when."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.ran: list[tuple[int, int, tuple[int, ...]]] = []
        self._since: dict[int, tuple[int, tuple[int, ...]]] = {}

    def submit(self, job: Job, now: int) -> Sequence[Job]:
        return self._note(super().submit(job, now), now)

    def end(self, job: Job, now: int) -> Sequence[Job]:
        self._close(job, now)
        return self._note(super().end(job, now), now)

    def wake(self, now: int) -> Sequence[Job]:
        return self._note(super().wake(now), now)

    def _note(self, touched: Sequence[Job], now: int) -> Sequence[Job]:
        for job in touched:
            if job.id in self._since:
                self._close(job, now)
            if job.granted:
                self._since[job.id] = (now, job.placed)
        return touched

    def _close(self, job: Job, now: int) -> None:
        since, placed = self._since.pop(job.id)
        self.ran.append((since, now, placed))


@pytest.mark.parametrize(
    "name", [f"{each.name}:40" if each.number else each.name for each in POLICIES]
)
@settings(max_examples=effort.examples(30), deadline=None)
@given(data=st.data())
def test_no_policy_ever_overfills_a_cluster_starts_early_or_loses_a_job(
    name: str, data: st.DataObject
) -> None:
    rules = data.draw(some_rules(reserved=data.draw(st.booleans())))
    jobs = data.draw(some_log(rules))
    watched = Watched(policy_maker(name)(grid_of(rules)))
    ended = list(replay(jobs, watched))
    assert sorted(job.id for job in ended) == [job.id for job in jobs]
    assert all(job.start_s >= job.submit_s for job in ended)
    for time_s in sorted({start_s for start_s, _, _ in watched.ran}):
        used = rules.reserved(time_s)
        for start_s, end_s, placed in watched.ran:
            if start_s <= time_s < end_s:
                used = [a + b for a, b in zip(used, placed, strict=True)]
        assert all(a <= b for a, b in zip(used, rules.nodes, strict=True)), time_s
    effort.steps[f"logs over a grid, watched, {name}"] += 1
