"""Every policy over every kind of cluster: where they come to the same, it decides the same."""

from __future__ import annotations

from typing import Final

import msgspec
import pytest
from tests import effort
from tests.policy_logs import Recording, SmallLog, crowded_log, decided

from kalends.machines.spec import machine_from
from kalends.scheduling import Cluster, Job, Reservation, Scheduler, policy_maker
from kalends.scheduling.grid import Grid
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.placement import ClusterSpec
from kalends.scheduling.policies.backfill.conservative import Conservative
from kalends.scheduling.policies.levels.packing import (
    FcfsStar,
    Ffdh,
    FfdhStar,
    Ffih,
    FfihStar,
)
from kalends.scheduling.policies.levels.voting import Ivs
from kalends.scheduling.registry import POLICIES
from kalends.simulation.kernel import replay

ALL = [info.name + (":50" if info.number and not info.optional else "") for info in POLICIES]
every_policy = pytest.mark.parametrize("policy", ALL)


VERIFIED: Final = {
    "ffdh": Ffdh,
    "ffih": Ffih,
    "ffdh*": FfdhStar,
    "ffih*": FfihStar,
    "fcfs*": FcfsStar,
    "ivs": Ivs,
}
"""Policies that settle beforehand on which nodes a job will run: there it is not all the same."""


def pool(log: SmallLog) -> Cluster:
    return MappedCluster(machine_from(f"pool:{log.nodes}"), log.reserved())


def one_cluster(log: SmallLog) -> Cluster:
    return Grid([ClusterSpec.of(log.nodes)], {0: log.reserved()})


NAMED: Final = {*VERIFIED, "conservative"}
"""`conservative` does so too, where nodes are reserved by name."""


@pytest.mark.parametrize("policy", [policy for policy in ALL if policy not in NAMED])
def test_any_nodes_of_a_pool_are_as_good_as_counted_ones(policy: str) -> None:
    for seed in range(effort.examples(30)):
        log = crowded_log(seed)
        assert decided(log, policy, pool) == decided(log, policy)


def test_so_they_are_to_conservative_backfilling_where_none_are_reserved_by_name() -> None:
    for seed in range(effort.examples(30)):
        log = msgspec.structs.replace(crowded_log(seed), reservations=())
        assert decided(log, "conservative", pool) == decided(log, "conservative")


@pytest.mark.parametrize("policy", VERIFIED)
def test_so_they_are_to_an_autonomous_scheduler_that_packs_levels(policy: str) -> None:
    for seed in range(effort.examples(30)):
        log = msgspec.structs.replace(crowded_log(seed), reservations=())
        scheduler = Recording(VERIFIED[policy](pool(log), verified=False))
        assert len(list(replay(log.simulated(), scheduler))) == len(log.jobs)
        assert scheduler.decisions == decided(log, policy)


@every_policy
def test_a_grid_of_one_cluster_is_that_cluster(policy: str) -> None:
    for seed in range(effort.examples(30)):
        log = crowded_log(seed)
        assert decided(log, policy, one_cluster) == decided(log, policy)


@every_policy
@pytest.mark.parametrize("machine", ["mesh2d:4x2", "hypercube:3"])
def test_on_a_topology_every_job_runs_on_nodes_of_its_own_until_it_is_done(
    policy: str, machine: str
) -> None:
    for seed in range(effort.examples(15)):
        log = crowded_log(seed)
        cluster = MappedCluster(machine_from(machine))
        scheduler = Distinct(policy_maker(policy)(cluster))
        jobs = log.simulated()
        assert len(list(replay(jobs, scheduler))) == len(jobs)
        assert cluster.free == cluster.machine.free == 8


@every_policy
def test_on_several_clusters_none_has_more_jobs_than_nodes(policy: str) -> None:
    for seed in range(effort.examples(15)):
        log = crowded_log(seed)
        grid = Grid([ClusterSpec.of(3), ClusterSpec.of(5, 2.0)])
        scheduler = Distinct(policy_maker(policy)(grid))
        jobs = log.simulated()
        assert len(list(replay(jobs, scheduler))) == len(jobs)
        assert grid.free_of_parts == [3, 5]


class Distinct(Recording):
    """Checks after every pass that no node is given twice."""

    def passed(self, touched: list[Job], now: int) -> list[Job]:
        running = [job for until_s, _, job in self.cluster.ends if until_s > now]
        if isinstance(self.cluster, Grid):
            for part, has in enumerate(self.cluster.parts):
                assert sum(job.placed[part] for job in running) <= has.nodes
            return touched
        taken = [node for job in running if job.partition for node in job.partition.nodes]
        assert len(taken) == len(set(taken)) == sum(job.granted for job in running)
        return touched


def test_conservative_wants_no_wake_once_the_last_waiting_job_is_withdrawn() -> None:
    scheduler = Scheduler(Conservative(Cluster(2, [Reservation(5, 9, 2)])))
    job = Job(1, 0, 2, 7)
    scheduler.submit(job, 0)
    assert scheduler.wake_at(0) == 9
    scheduler.withdraw(job, 1)
    assert scheduler.wake_at(1) is None
