"""The live level policies: what must hold on any machine."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from start_estimates import EstimatingScheduler
from tests import effort

from kalends.machines.spec import machine_from
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.levels import pack
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.policies.levels.packing import (
    FcfsStar,
    Ffdh,
    FfdhStar,
    Ffih,
    FfihStar,
    LevelPolicy,
)
from kalends.scheduling.policies.levels.voting import Ivs
from kalends.scheduling.registry import policy_maker
from kalends.scheduling.reservations import Reservation
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay

ALL: list[type[LevelPolicy]] = [Ffdh, Ffih, FfdhStar, FfihStar, FcfsStar, Ivs]
MACHINES = ["mesh2d:4x4", "mesh2d:4x4:2x2:io=border", "hypercube:4", "pool:16"]

Log = list[tuple[int, int, int, int, int, bool]]
LOGS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(1, 16),
        st.integers(1, 9),
        st.integers(0, 4),
        st.integers(0, 2),
        st.booleans(),
    ),
    min_size=1,
    max_size=14,
)
"""Seconds since the one before, nodes, requested time, how much less it runs, priority, interactive."""


def jobs_of(log: Log, *, exact: bool) -> list[SimulatedJob]:
    jobs, now = [], 0
    for number, (gap, nodes, length, less, priority, interactive) in enumerate(log):
        now += gap
        run_s = length if exact else max(length - less, 1)
        jobs.append(
            SimulatedJob(
                id=number, submit_s=now, nodes=nodes, requested_s=length, run_s=run_s,
                priority=priority, interactive=interactive,
            )
        )  # fmt: skip
    return jobs


def run(
    policy_class: type[LevelPolicy], cluster: Cluster, jobs: list[SimulatedJob], **options: Any
) -> EstimatingScheduler:
    scheduler = EstimatingScheduler(policy_class(cluster, **options))
    ended = list(replay(jobs, scheduler))
    assert sorted(job.id for job in ended) == list(range(len(jobs))), "every job starts, and ends"
    for job in jobs:
        assert job.start_s >= job.submit_s
    return scheduler


@pytest.mark.parametrize("policy_class", [FfdhStar, FfihStar, FcfsStar])
@settings(max_examples=effort.examples(60), deadline=None)
@given(LOGS)
def test_a_block_behind_a_full_machine_is_packed_as_the_pure_rule_packs_it(
    policy_class: type[LevelPolicy], log: Log
) -> None:
    block = [(0, nodes, length, 0, 0, False) for _, nodes, length, *_ in log]
    jobs = jobs_of([(0, 16, 9, 0, 0, False), *block], exact=True)
    jobs[0].nodes = 16
    policy = policy_class(Cluster(16), threshold_s=0)
    scheduler = EstimatingScheduler(policy)
    # The first of the block is planned alone at once; all others wait for the next extraction.
    blocker, first, *rest = jobs
    first.nodes, first.requested_s, first.run_s = 16, 1, 1
    list(replay([blocker, first, *rest], scheduler))
    packed = pack(policy_class.rule, [(job.nodes, job.run_s) for job in rest], 16)
    assert [job.start_s for job in rest] == [10 + each.start_s for each in packed]


@pytest.mark.parametrize("threshold_s", [0, 20])
@pytest.mark.parametrize("verified", [False, True])
@pytest.mark.parametrize("policy_class", ALL)
@settings(max_examples=effort.examples(25), deadline=None)
@given(log=LOGS, machine=st.sampled_from(MACHINES), exact=st.booleans())
def test_every_job_starts_and_no_node_is_given_twice_on_any_machine(
    policy_class: type[LevelPolicy],
    verified: bool,
    threshold_s: int,
    log: Log,
    machine: str,
    exact: bool,
) -> None:
    jobs = jobs_of(log, exact=exact)
    cluster = MappedCluster(machine_from(machine))
    run(policy_class, cluster, jobs, verified=verified, threshold_s=threshold_s)
    for index, job in enumerate(jobs):
        assert job.partition is not None
        for other in jobs[:index]:
            assert other.partition is not None
            if job.start_s < other.end_s and other.start_s < job.end_s:
                assert not set(job.partition.nodes) & set(other.partition.nodes)
    effort.steps[f"mapped logs {policy_class.__name__}"] += 1


@pytest.mark.parametrize("policy_class", ALL)
@settings(max_examples=effort.examples(40), deadline=None)
@given(log=LOGS, machine=st.sampled_from(MACHINES), threshold_s=st.sampled_from([0, 5, 100]))
def test_whom_the_mapper_has_verified_starts_exactly_when_promised(
    policy_class: type[LevelPolicy], log: Log, machine: str, threshold_s: int
) -> None:
    jobs = jobs_of(log, exact=True)
    cluster = MappedCluster(machine_from(machine))
    scheduler = run(policy_class, cluster, jobs, threshold_s=threshold_s)
    assert [scheduler.at_entry[job.order] for job in jobs] == [job.start_s for job in jobs]


@pytest.mark.parametrize("policy_class", ALL)
@settings(max_examples=effort.examples(40), deadline=None)
@given(LOGS)
def test_with_wrong_estimates_nobody_inside_the_scheduler_starts_later_than_promised(
    policy_class: type[LevelPolicy], log: Log
) -> None:
    jobs = jobs_of(log, exact=False)
    scheduler = run(policy_class, Cluster(16), jobs)
    for job in jobs:
        assert job.start_s <= scheduler.at_entry[job.order]


@pytest.mark.parametrize("policy_class", ALL)
@settings(max_examples=effort.examples(30), deadline=None)
@given(log=LOGS, at=st.integers(0, 30), nodes=st.integers(1, 16), mapped=st.booleans())
def test_advance_reservations_are_kept_and_every_job_still_starts(
    policy_class: type[LevelPolicy], log: Log, at: int, nodes: int, mapped: bool
) -> None:
    reservations = [Reservation(at, at + 7, nodes)]
    cluster = (
        MappedCluster(machine_from("pool:16"), reservations)
        if mapped
        else Cluster(16, reservations)
    )
    jobs = jobs_of(log, exact=True)
    run(policy_class, cluster, jobs)
    for time in range(at, at + 7):
        taken = sum(job.nodes for job in jobs if job.start_s <= time < job.end_s)
        assert taken + nodes <= 16


@pytest.mark.parametrize("policy_class", [Ffdh, Ffih, FfdhStar, FfihStar, FcfsStar])
@settings(max_examples=effort.examples(30), deadline=None)
@given(LOGS)
def test_the_last_job_of_a_log_starts_as_predicted_where_only_nodes_are_counted(
    policy_class: type[LevelPolicy], log: Log
) -> None:
    jobs = jobs_of(log, exact=True)
    scheduler = run(policy_class, Cluster(16), jobs)
    last = jobs[-1]
    assert scheduler.at_submission[last.order] == last.start_s


@pytest.mark.parametrize(
    "name", ["ffdh", "ffih", "ffdh*", "ffih*", "fcfs*", "ivs", "ivs-autonomous"]
)
def test_each_is_known_by_its_name_and_lists_who_waits(name: str) -> None:
    policy = policy_maker(name)(MappedCluster(machine_from("mesh2d:4x4")))
    scheduler = EstimatingScheduler(policy)  # type: ignore[arg-type]  # a level policy, by its name
    jobs = jobs_of(
        [(0, 16, 5, 0, 0, False), (0, 9, 5, 0, 0, False), (0, 4, 5, 0, 2, True)], exact=True
    )
    for job in jobs:
        scheduler.submit(job, 0)
    assert list(policy.waiting()) == jobs[1:]
    assert scheduler.at_submission[1] == 5
    scheduler.withdraw(jobs[1], 1)
    assert list(policy.waiting()) == jobs[2:]
    assert scheduler.end(jobs[0], 2) == [jobs[2]]
    assert list(policy.waiting()) == []


def test_ivs_votes_by_the_mixture_of_the_block() -> None:
    policy = Ivs(Cluster(16))
    scheduler = EstimatingScheduler(policy)
    scheduler.submit(jobs_of([(0, 16, 5, 0, 0, False)], exact=True)[0], 0)
    batch, interactive = (jobs_of([(0, 4, 5, 0, 0, mode)], exact=True)[0] for mode in (False, True))
    packing = policy.plan.packing(0)
    assert policy.choose([batch, batch, batch], packing, 0).name == "ffdh*", (
        "nobody votes for waits"
    )
    assert policy.choose([batch, batch, interactive], packing, 0).name == "ffdh*"
    assert policy.choose([batch, interactive], packing, 0).name == "ffdh*"
    assert policy.choose([batch, interactive, interactive], packing, 0).name == "ffih*"
    assert (
        Ivs(Cluster(16)).choose([batch, interactive], Ivs(Cluster(16)).plan.packing(0), 0).name
        == "fcfs*"
    )


def test_blocks_are_counted_by_the_rule_that_packed_them_and_a_change_of_rule_is_a_switch() -> None:
    policy = Ivs(Cluster(16))
    log: Log = [
        (0, 16, 5, 0, 0, False), (0, 16, 5, 0, 0, False), (1, 9, 5, 0, 0, False),
        (1, 9, 5, 0, 0, True), (1, 9, 5, 0, 0, True), (20, 16, 1, 0, 0, False),
    ]  # fmt: skip
    list(replay(jobs_of(log, exact=True), EstimatingScheduler(policy)))
    assert policy.blocks == {"ffdh*": 2, "ffih*": 1}
    assert policy.switches == 2
