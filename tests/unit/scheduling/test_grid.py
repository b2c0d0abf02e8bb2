"""Grids: where jobs are placed, how much longer they run there, who may go before whom."""

from __future__ import annotations

import pytest

from kalends.core.errors import InvalidInput
from kalends.scheduling.grid import Grid
from kalends.scheduling.grid_spec import crossing_from, grid_from
from kalends.scheduling.job import Components
from kalends.scheduling.placement import ClusterSpec, CrossingPenalty, GridPart
from kalends.scheduling.policies.backfill.easy import Easy
from kalends.scheduling.policies.ordered.fcfs import Fcfs
from kalends.scheduling.registry import policy_maker
from kalends.scheduling.reservations import Reservation
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay


def job(name: int, *nodes: int, kind: str = "", submit_s: int = 0, run_s: int = 10) -> SimulatedJob:
    return SimulatedJob(
        id=name, submit_s=submit_s, nodes=sum(nodes), requested_s=run_s, run_s=run_s,
        components=Components(kind, nodes) if kind else None,
    )  # fmt: skip


def started(grid: Grid, *jobs: SimulatedJob) -> list[tuple[int, ...]]:
    for order, each in enumerate(jobs):
        each.order = order
        assert grid.start(each, 0)
    return [each.placed for each in jobs]


def test_ordered_components_run_each_on_its_own_cluster_or_not_at_all() -> None:
    grid = grid_from("grid:4+4+4")
    assert started(grid, job(1, 1, 0, 3, kind="ordered")) == [(1, 0, 3)]
    assert not grid.can_start(job(2, 1, 1, 2, kind="ordered"), 0)
    assert grid.can_start(job(3, 3, 4, kind="ordered"), 0)


def test_unordered_components_go_to_the_emptiest_clusters_or_with_first_fit_to_the_first() -> None:
    busy, wanted = job(1, 2, 1, 0, kind="ordered"), (1, 2)
    assert started(grid_from("grid:4+4+4"), busy, job(2, *wanted, kind="unordered"))[1] == (0, 1, 2)
    first = grid_from("grid:4+4+4", fit="first")
    assert started(first, job(1, 2, 1, 0, kind="ordered"), job(2, *wanted, kind="unordered"))[1] == (
        2, 1, 0,
    )  # fmt: skip


def test_unordered_components_never_share_a_cluster() -> None:
    assert not grid_from("grid:8+1").can_start(job(1, 2, 2, kind="unordered"), 0)


def test_total_requests_stay_on_the_fullest_cluster_with_room_and_cross_as_few_as_can_be() -> None:
    busy = job(1, 1, 5, 0, 3, kind="ordered")
    grid = grid_from("grid:8+8+8+8")
    assert started(grid, busy, job(2, 4))[1] == (0, 0, 0, 4)
    grid = grid_from("grid:8+8+8+8")
    assert started(grid, job(1, 1, 5, 0, 3, kind="ordered"), job(2, 10, kind="total"))[1] == (
        0, 2, 8, 0,
    )  # fmt: skip


def test_jobs_without_components_stay_on_one_cluster_where_that_is_asked() -> None:
    grid = grid_from("grid:4+4", undivided="single")
    assert not grid.could_ever_fit(job(1, 5))
    assert grid.could_ever_fit(job(2, 5, kind="total"))
    assert started(grid, job(3, 4), job(4, 4)) == [(4, 0), (0, 4)]


def test_the_slowest_node_decides_how_long_a_job_takes_and_fast_ones_are_taken_first() -> None:
    grid = grid_from("grid:2@2,2@0.5+4")
    fast, mixed = job(1, 2), job(2, 1, kind="ordered")
    assert started(grid, fast, mixed) == [(2, 0, 0), (0, 1, 0)]
    assert (fast.stretch, fast.until_s, mixed.stretch, mixed.until_s) == (0.5, 5, 2.0, 20)


def test_crossing_clusters_costs_once_and_for_each_cluster_more() -> None:
    grid = grid_from("grid:4+4+4", crossing="once:0.5,each:0.25")
    alone, pair, three = job(1, 1, kind="ordered"), job(2, 1, 1), job(3, 1, 1, 1)
    for each in (pair, three):
        each.components = Components("unordered", (1,) * each.nodes)
    started(grid, alone, pair, three)
    assert [each.stretch for each in (alone, pair, three)] == [1.0, 1.75, 2.0]
    assert [each.until_s for each in (alone, pair, three)] == [10, 18, 20]


def test_a_stretch_is_not_rounded_up_for_what_floats_add() -> None:
    (ended,) = replay([job(1, 1, 1, kind="ordered", run_s=70)], Scheduler(Fcfs(grid_from(
        "grid:1+1", crossing="once:0.1"
    ))))  # fmt: skip
    assert (ended.until_s, ended.end_s) == (77, 77)


def test_a_stretched_job_ends_as_much_later_when_replayed() -> None:
    ended = list(replay([job(1, 3, run_s=7)], Scheduler(Fcfs(grid_from("grid:3@0.4")))))
    assert [(each.start_s, each.end_s) for each in ended] == [(0, 18)]


def test_who_would_take_what_the_head_needs_in_its_cluster_may_not_go_before_it() -> None:
    grid = grid_from("grid:4+4")
    jobs = [
        job(1, 4, 0, kind="ordered", run_s=10),
        job(2, 4, 2, kind="ordered", run_s=10),
        job(3, 0, 3, kind="ordered", run_s=11),
        job(4, 0, 2, kind="ordered", run_s=11),
        job(5, 0, 2, kind="ordered", run_s=10),
    ]
    ended = {each.id: each for each in replay(jobs, Scheduler(Easy(grid)))}
    assert {name: each.start_s for name, each in ended.items()} == {1: 0, 2: 10, 3: 20, 4: 0, 5: 0}


def test_a_stretched_candidate_may_not_delay_the_head_though_it_asked_for_less() -> None:
    grid = grid_from("grid:2+2@0.5")
    jobs = [
        job(1, 2, 0, kind="ordered", run_s=10),
        job(2, 2, 2, kind="ordered", run_s=5),
        job(3, 0, 1, kind="ordered", run_s=6),
        job(4, 0, 1, kind="ordered", run_s=5),
    ]
    ended = {each.id: each.start_s for each in replay(jobs, Scheduler(Easy(grid)))}
    assert ended == {1: 0, 2: 10, 3: 20, 4: 0}


def test_reservations_of_one_cluster_leave_the_others_alone() -> None:
    kept = {1: [Reservation(5, 20, 2)]}
    jobs = [
        job(1, 2, kind="ordered"),
        job(2, 0, 1, kind="ordered"),
        job(3, 0, 2, kind="ordered", run_s=5),
    ]
    for policy in (Fcfs, Easy):
        for each in jobs:
            each.start_s = each.until_s = -1
        grid = grid_from("grid:2+2", reservations=kept)
        starts = {each.id: each.start_s for each in replay(jobs, Scheduler(policy(grid)))}
        assert starts == ({1: 0, 2: 20, 3: 30} if policy is Fcfs else {1: 0, 2: 20, 3: 0})


def test_a_preempted_job_waits_for_what_is_left_by_the_clock_of_the_reference_node() -> None:
    grid = grid_from("grid:2@0.5")
    stopped = job(1, 2, run_s=10)
    started(grid, stopped)
    grid.stop(stopped, 5)
    assert (stopped.requested_s, grid.free, grid.free_of_parts) == (8, 2, [2])


@pytest.mark.parametrize("name", ["easy", "conservative", "fcfs"])
def test_a_job_waits_for_nodes_that_are_out_of_service_and_others_go_on(name: str) -> None:
    scheduler = Scheduler(policy_maker(name)(grid_from("grid:2+2")))
    grid = scheduler.cluster
    grid.drain([3])
    assert isinstance(grid, Grid)
    assert (grid.out_of_parts, grid.free_of_parts) == ([0, 1], [2, 1])
    first, wide, other = job(1, 2, kind="ordered"), job(2, 0, 2, kind="ordered"), job(3, 1)
    assert scheduler.submit(first, 0) == [first]
    assert scheduler.submit(wide, 0) == []
    assert scheduler.submit(other, 0) == ([] if name == "fcfs" else [other])
    grid.resume([3])
    assert scheduler.wake(1) == ([wide] if name == "fcfs" else [])
    if name != "fcfs":
        assert scheduler.end(other, 5) == [wide]
    scheduler.end(first, 10)
    scheduler.end(wide, 15)
    assert grid.free_of_parts == [2, 2] if name != "fcfs" else [1, 2]


def test_an_urgent_job_stops_only_who_has_nodes_that_it_needs() -> None:
    scheduler = Scheduler(policy_maker("preemptive")(grid_from("grid:2+2")))
    here, there = job(1, 2, kind="ordered"), job(2, 0, 2, kind="ordered")
    urgent = job(3, 0, 2, kind="ordered")
    urgent.priority = 9
    for each in (here, there):
        scheduler.submit(each, 0)
    assert scheduler.submit(urgent, 4) == [there, urgent]
    assert (here.granted, there.granted, urgent.placed) == (2, 0, (0, 2))
    assert (there.requested_s, scheduler.cluster.free) == (6, 0)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("32+32", "'32+32' is not a grid"),
        ("grid", "'grid' is not a grid"),
        ("grid:", "'' is not a number of nodes"),
        ("grid:32++32", "'' is not a number of nodes"),
        ("grid:32+x", "'x' is not a number of nodes"),
        ("grid:-4", "'-4' is not a number of nodes"),
        ("grid:0+4", "0 nodes"),
        ("grid:4@0", "a speed of 0"),
        ("grid:4@", "'4@' is not a number of nodes"),
        ("grid:4@nan", "'4@nan' is not a number of nodes"),
        ("grid:9999999999", "'9999999999' is not a number of nodes"),
        ("grid:" + "1+" * 1000 + "1", "1001 clusters"),
        ("grid:٣", "'٣' is not a number of nodes"),
    ],
)
def test_a_grid_that_cannot_be_read_is_refused_with_what_to_write(text: str, wrong: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        grid_from(text)
    assert refused.value.detail == wrong
    assert refused.value.remedy


@pytest.mark.parametrize("text", ["1", "once", "once:", "once:-1", "once:1,once:2", "twice:1", ","])
def test_a_crossing_penalty_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="crossing penalty"):
        crossing_from(text)


def test_grids_say_what_they_are_made_of() -> None:
    grid = grid_from("grid:48@1,16@0.5+32", crossing="each:0.1,once:0.2")
    assert grid.parts == (GridPart(48), GridPart(16, 0.5), GridPart(32))
    assert grid.nodes == grid.free == 96
    assert grid.placer.crossing == CrossingPenalty(0.2, 0.1)
    assert grid.placer.by_cluster((1, 2, 3)) == [3, 3]


@pytest.mark.parametrize(
    "components",
    [Components("ordered", (1, 2)), Components("total", (-1, 5)), Components("any", (4,)),
     Components("total", ())],
)  # fmt: skip
def test_components_that_contradict_the_job_are_refused_and_nothing_waits(
    components: Components,
) -> None:
    scheduler = Scheduler(Fcfs(grid_from("grid:8+8")))
    wrong = job(1, 4)
    wrong.components = components
    with pytest.raises(InvalidInput):
        scheduler.submit(wrong, 0)
    assert scheduler.waiting == 0


def test_absurd_grids_are_refused() -> None:
    with pytest.raises(InvalidInput, match="no nodes"):
        Grid([])
    with pytest.raises(InvalidInput, match="no nodes"):
        Grid([ClusterSpec(())])
    with pytest.raises(InvalidInput, match="'best' is not known"):
        grid_from("grid:4", fit="best")
    with pytest.raises(InvalidInput, match="'many' is not known"):
        grid_from("grid:4", undivided="many")
    with pytest.raises(InvalidInput, match="no such part 1"):
        grid_from("grid:4", reservations={1: []})
    with pytest.raises(InvalidInput, match="5 nodes are reserved"):
        grid_from("grid:4+4", reservations={0: [Reservation(0, 9, 5)]})
    with pytest.raises(InvalidInput, match="crossing penalty of -1"):
        CrossingPenalty(-1.0)
