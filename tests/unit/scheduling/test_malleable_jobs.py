"""Moldable and malleable jobs by hand: phases, changes, refusals, and sizes under rigid policies."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import effort

from kalends.core.errors import InvalidInput
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Moldability
from kalends.scheduling.molding import Molding
from kalends.scheduling.policies.backfill.easy import Easy
from kalends.scheduling.policies.moldable.moldable import Adaptive, Lazy
from kalends.scheduling.policies.moldable.reconfigurable import Reconfigurable
from kalends.scheduling.policies.ordered.fcfs import Fcfs
from kalends.scheduling.registry import policy_maker
from kalends.scheduling.reservations import Reservation
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay
from kalends.simulation.malleable import Course, MalleableJob

COURSE = Course(
    sizes=(2, 4, 8), setup_s=(6, 4, 2), solution_s=(400, 200, 100), summary_s=(3, 2, 1),
    iterations=100, every=5, reconfiguration_s=10, redistribution_s=4,
)  # fmt: skip


def job(
    number: int, submit_s: int, *, malleable: bool = True, course: Course = COURSE
) -> MalleableJob:
    molds = course.molds(malleable=malleable)
    return MalleableJob(
        number, submit_s, course.sizes[0], molds.requested_s[0], molds=molds, course=course
    )


def test_a_running_job_shrinks_at_its_next_boundary_and_gives_its_nodes_when_data_is_moved() -> (
    None
):
    # A runs on 8 from 0: setup until 2, then an iteration a second. B comes at 40, in the 38th; the
    # next boundary is the 40th, at 42. Nodes are free at 46; A goes on at 52 with 60 left, 2 s each.
    a, b = job(1, 0), job(2, 40, malleable=False)
    ended = list(replay([a, b], Scheduler(Reconfigurable(Cluster(8), interval=1000))))
    assert (a.end_s, a.changes) == (52 + 60 * 2 + 2, 1)
    assert (b.start_s, b.nodes) == (46, 4)
    assert b.end_s == 46 + 4 + 200 + 2
    assert [each.id for each in ended] == [1, 2]
    assert a.node_seconds() == 8 * 46 + 4 * (a.end_s - 46)


def test_nodes_that_nobody_waits_for_go_to_the_job_that_gains_most() -> None:
    # B must wait for A to shrink; when C, which keeps 4 nodes, is over, A and B could both use them.
    first, second = job(1, 0), job(2, 1)
    list(replay([first, second], Scheduler(Reconfigurable(Cluster(12), interval=0))))
    assert first.changes == 0
    assert (second.start_s, second.nodes, second.changes) == (1, 8, 1)


def test_lazy_gives_the_first_all_it_can_take_and_adaptive_starts_more_jobs() -> None:
    for policy, sizes in ((Lazy, [8, 4]), (Adaptive, [8, 4])):
        jobs = [job(1, 0), job(2, 0)]
        list(replay(jobs, Scheduler(policy(Cluster(12)))))
        assert [each.nodes for each in jobs] == sizes
    for policy, starts in ((Lazy, [20, 20 + 103]), (Adaptive, [20, 20])):
        blocker = SimulatedJob(0, 0, 8, 20, run_s=20)
        jobs = [job(1, 5), job(2, 5)]
        list(replay([blocker, *jobs], Scheduler(policy(Cluster(8)))))
        assert [each.start_s for each in jobs] == starts


def test_a_resize_is_refused_where_it_makes_no_sense_and_changes_nothing() -> None:
    cluster = Cluster(8)
    able, rigid, fixed = job(1, 0), SimulatedJob(2, 0, 1, 50, run_s=50), job(3, 0, malleable=False)
    for order, each in enumerate((able, rigid, fixed)):
        each.order = order
    assert not cluster.resize(able, 4, 0), "it does not run"
    assert cluster.start(able, 0)
    assert not cluster.resize(able, 4, 0), "it was started in this very pass"
    assert cluster.start(rigid, 0)
    assert cluster.start(fixed, 0)
    cluster.touched.clear()
    assert not cluster.resize(rigid, 2, 1)
    assert not cluster.resize(fixed, 4, 1), "only moldable"
    assert not cluster.resize(able, 3, 1), "none of its sizes"
    assert not cluster.resize(able, 2, 1), "it has it"
    assert not cluster.resize(able, 8, 1), "more than are free"
    assert (cluster.free, able.granted, able.target, cluster.touched) == (3, 2, 0, [])
    assert cluster.resize(able, 4, 1)
    assert (cluster.free, able.granted, able.target, cluster.touched) == (1, 4, 4, [able])
    assert not cluster.resize(able, 2, 2), "one change at a time"


def test_no_change_is_asked_that_might_still_need_nodes_when_they_are_reserved() -> None:
    for start_s, allowed in ((400, False), (425, True)):
        cluster = Cluster(8, [Reservation(start_s, start_s + 10, 6)])
        able = job(1, 0)
        able.order, able.nodes, able.requested_s = 0, 4, 206
        assert cluster.start(able, 0)
        cluster.touched.clear()
        assert cluster.resize(able, 2, 5) == allowed


def test_a_preempted_malleable_job_goes_on_where_it_was() -> None:
    cluster = Cluster(8)
    able = job(1, 0)
    able.order, able.nodes, able.requested_s = 0, 8, 103
    assert cluster.start(able, 0)
    able.reckon(0)
    cluster.stop(able, 50)
    able.reckon(50)
    assert able.end_s == -1
    assert cluster.start(able, 80)
    able.reckon(80)
    assert able.end_s == able.until_s == 103 + 30
    assert cluster.resize(able, 4, 90) is False, "started in this very pass"
    cluster.touched.clear()
    assert cluster.resize(able, 4, 90)
    able.reckon(90)
    # At 90 it is in the 59th iteration; the 60th ends at 92.
    assert able.change_s == 92 + 4
    cluster.stop(able, 94)
    able.reckon(94)
    assert cluster.start(able, 100)
    able.reckon(100)
    assert able.end_s == 100 + 40 + 1


def test_a_slow_place_stretches_every_phase() -> None:
    able = job(1, 0)
    able.nodes, able.granted, able.stretch = 8, 8, 1.5
    able.reckon(10)
    assert able.end_s == 10 + 3 + 150 + 2


def test_rigid_policies_get_the_size_that_is_over_first() -> None:
    # 8 nodes are busy until 60, 4 are free: on 4 the job is over at 206, on 8 at 60 + 103.
    blocker = SimulatedJob(0, 0, 8, 60, run_s=60)
    moldable = job(1, 0, malleable=False)
    list(replay([blocker, moldable], Scheduler(Molding(Easy(Cluster(12))))))
    assert (moldable.start_s, moldable.nodes, moldable.end_s) == (60, 8, 163)
    blocker = SimulatedJob(0, 0, 8, 160, run_s=160)
    moldable = job(1, 0, malleable=False)
    list(replay([blocker, moldable], Scheduler(Molding(Easy(Cluster(12))))))
    assert (moldable.start_s, moldable.nodes, moldable.end_s) == (0, 4, 206)


@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 20)), max_size=6),
    st.lists(st.integers(1, 30), min_size=3, max_size=3),
)
def test_the_size_chosen_is_over_first_as_trying_all_seconds_shows(
    others: list[tuple[int, int]], times: list[int]
) -> None:
    scheduler = Scheduler(policy := Molding(Fcfs(Cluster(8))))
    for number, (nodes, run_s) in enumerate(others):
        scheduler.submit(SimulatedJob(number, 0, nodes, run_s, run_s=run_s), 0)
    free = [8] * 400
    running = [(0, each) for _, _, each in policy.cluster.ends]
    for start_s, each in running + [(None, each) for each in policy.waiting()]:
        if start_s is None:
            start_s = next(
                at for at in range(400) if min(free[at : at + each.requested_s]) >= each.nodes
            )
        for at in range(start_s, start_s + each.requested_s):
            free[at] -= each.nodes
    sizes = (2, 5, 8)
    overs = [
        next(at for at in range(400) if min(free[at : at + time_s]) >= nodes) + time_s
        for nodes, time_s in zip(sizes, times, strict=True)
    ]
    molds = Moldability(sizes, tuple(times))
    chosen = policy.chosen(SimulatedJob(99, 0, 2, times[0], molds=molds), 0)
    assert chosen == sizes[overs.index(min(overs))]
    effort.steps["sizes of moldable jobs by trying all seconds"] += 1


@pytest.mark.parametrize("name", ["lazy", "adaptive", "reconfigurable"])
def test_the_policies_are_known_by_name(name: str) -> None:
    assert policy_maker(name)(Cluster(4)).cluster.nodes == 4


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"sizes": ()}, "sizes"),
        ({"sizes": (4, 2, 8)}, "sizes"),
        ({"solution_s": (1, 2)}, "solution_s"),
        ({"solution_s": (1, 0, 2)}, "solution_s"),
        ({"setup_s": (1, -1, 2)}, "setup_s"),
        ({"summary_s": (1,)}, "summary_s"),
        ({"iterations": 0}, "iterations"),
        ({"every": 0}, "iterations"),
        ({"redistribution_s": 11}, "redistribution_s"),
        ({"redistribution_s": -1}, "redistribution_s"),
    ],
)
def test_a_course_that_makes_no_sense_is_refused(change: dict[str, object], where: str) -> None:
    fields = {name: getattr(COURSE, name) for name in COURSE.__struct_fields__}
    with pytest.raises(InvalidInput) as refused:
        Course(**{**fields, **change})
    assert refused.value.where == where
    assert refused.value.remedy


def test_the_longer_the_fewer_nodes() -> None:
    assert all(a > b for a, b in pairwise(COURSE.total_s(at) for at in range(3)))
