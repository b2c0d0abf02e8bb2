"""Every policy over a machine with a topology: nodes are nobody else's, promises hold, all jobs end."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.core.errors import InvalidInput
from kalends.machines.spec import machine_from
from kalends.scheduling.cluster import Cluster, Promise
from kalends.scheduling.job import Job
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.policies.backfill.easy import Easy
from kalends.scheduling.profile import NEVER
from kalends.scheduling.registry import POLICIES, policy_maker
from kalends.scheduling.reservations import Reservation
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay

MACHINES = ["mesh2d:8x8:2x2:io=border", "mesh2d:5x3", "hypercube:4", "torus3d:3x2x2"]
NAMES = [f"{policy.name}:10" if policy.number else policy.name for policy in POLICIES]


@st.composite
def workloads(draw: st.DrawFn, nodes: int, exact: bool = False) -> list[SimulatedJob]:
    jobs, now = [], 0
    for number in range(draw(st.integers(1, 25))):
        now += draw(st.sampled_from([0, 0, 1, 2, 5]))
        requested_s = draw(st.integers(1, 12))
        run_s = requested_s if exact else draw(st.integers(1, requested_s))
        jobs.append(
            SimulatedJob(
                id=number + 100, submit_s=now, nodes=draw(st.integers(1, nodes)),
                requested_s=requested_s, run_s=run_s,
                priority=draw(st.integers(0, 2)),
            )
        )  # fmt: skip
    return jobs


def run(cluster: Cluster, policy: str, jobs: Iterable[SimulatedJob]) -> list[SimulatedJob]:
    return list(replay(jobs, Scheduler(policy_maker(policy)(cluster))))


def fresh(jobs: list[SimulatedJob]) -> list[SimulatedJob]:
    return [
        SimulatedJob(
            id=job.id, submit_s=job.submit_s, nodes=job.nodes,
            requested_s=job.requested_s, run_s=job.run_s, priority=job.priority,
        )
        for job in jobs
    ]  # fmt: skip


def fitting(cluster: MappedCluster, jobs: list[SimulatedJob]) -> list[SimulatedJob]:
    return [job for job in jobs if cluster.could_ever_fit(job)]


@pytest.mark.parametrize("policy", NAMES)
@pytest.mark.parametrize("spec", MACHINES)
@settings(max_examples=effort.examples(5), deadline=None)
@given(data=st.data())
def test_no_policy_puts_two_jobs_on_a_node_or_a_job_on_reserved_nodes(
    spec: str, policy: str, data: st.DataObject
) -> None:
    machine = machine_from(spec)
    reservations = [Reservation(5, 9, 3, "demo"), Reservation(12, 15, machine.nodes, "all")]
    if not data.draw(st.booleans()):
        reservations = []
    cluster = MappedCluster(machine, reservations)
    jobs = fitting(cluster, data.draw(workloads(machine.nodes)))
    ended = run(cluster, policy, jobs)
    assert len(ended) == len(jobs)
    assert machine.free == machine.nodes == cluster.free
    uses = [(room.start_s, room.end_s, set(nodes.nodes)) for room, nodes in cluster.rooms]
    for job in ended:
        assert job.partition is not None
        assert job.start_s >= job.submit_s
        assert len(job.partition.nodes) == machine.granted(job.nodes) >= job.nodes
        # A preempted job has several runs, and tells of the first start and the last end.
        if not policy.startswith("preemptive"):
            uses.append((job.start_s, job.end_s, set(job.partition.nodes)))
    for at, (start_s, end_s, nodes) in enumerate(uses):
        for other_start_s, other_end_s, others in uses[:at]:
            assert start_s >= other_end_s or other_start_s >= end_s or not nodes & others


VERIFYING = {"ffdh", "ffih", "ffdh*", "ffih*", "fcfs*", "ivs"}
"""They settle beforehand which nodes a job gets: of nodes that are free at every second of a time, none
need be free for all of it. `test_policy_clusters` has the law for their autonomous kind."""


@pytest.mark.parametrize("policy", [name for name in NAMES if name not in VERIFYING])
@settings(max_examples=effort.examples(8), deadline=None)
@given(jobs=workloads(12))
def test_on_a_pool_named_nodes_change_no_start(policy: str, jobs: list[SimulatedJob]) -> None:
    counted = run(Cluster(12), policy, fresh(jobs))
    named = run(MappedCluster(machine_from("pool:12")), policy, fresh(jobs))
    assert [(job.id, job.start_s) for job in named] == [(job.id, job.start_s) for job in counted]
    effort.steps["mapped pool and counting cluster"] += 1


class Remembering(MappedCluster):
    """Keeps all that was promised to a job."""

    def __init__(self, spec: str, reservations: Iterable[Reservation] = ()) -> None:
        super().__init__(machine_from(spec), reservations)
        self.promised: dict[int, int] = {}

    def promise(self, job: Job, now: int) -> Promise:
        promise = super().promise(job, now)
        earlier = self.promised.get(job.id, promise.shadow_s)
        assert promise.shadow_s <= earlier, "a promise was taken back"
        self.promised[job.id] = promise.shadow_s
        return promise


@pytest.mark.parametrize("policy", ["easy", "easy-sjbf"])
@pytest.mark.parametrize("spec", MACHINES)
@pytest.mark.parametrize("exact", [True, False])
@settings(max_examples=effort.examples(25), deadline=None)
@given(data=st.data())
def test_easy_on_a_topology_never_breaks_its_promise_to_the_head(
    spec: str, policy: str, exact: bool, data: st.DataObject
) -> None:
    reservations = [Reservation(4, 9, 2, "a"), Reservation(11, 13, 4, "b")]
    cluster = Remembering(spec, reservations if data.draw(st.booleans()) else [])
    jobs = fitting(cluster, data.draw(workloads(cluster.nodes, exact)))
    for job in run(cluster, policy, jobs):
        assert job.start_s <= cluster.promised.get(job.id, NEVER)
        effort.steps["promises on topologies"] += job.id in cluster.promised


@pytest.mark.parametrize("kind", ["counted", "mesh2d:4x4:2x2", "hypercube:4"])
@settings(max_examples=effort.examples(25), deadline=None)
@given(data=st.data())
def test_nodes_that_leave_service_get_no_new_job_until_they_are_back(
    kind: str, data: st.DataObject
) -> None:
    cluster = Cluster(16) if kind == "counted" else MappedCluster(machine_from(kind))
    scheduler = Scheduler(Easy(cluster))
    out = data.draw(st.sets(st.integers(0, 15), min_size=1, max_size=3))
    first = SimulatedJob(id=1, submit_s=0, nodes=4, requested_s=10, run_s=10)
    scheduler.submit(first, 0)
    cluster.drain(out)
    cluster.drain(out)
    whole = SimulatedJob(id=2, submit_s=1, nodes=16, requested_s=10, run_s=10)
    small = SimulatedJob(id=3, submit_s=2, nodes=1, requested_s=50, run_s=50)
    assert not scheduler.submit(whole, 1)
    scheduler.submit(small, 2)
    in_use = sum(job.granted for _, _, job in cluster.ends)
    assert cluster.free == 16 - cluster.out_of_service - in_use
    if isinstance(cluster, MappedCluster):
        assert small.partition is None or out.isdisjoint(small.partition.nodes)
        assert not small.granted or out.isdisjoint(small.partition.nodes)
    scheduler.end(first, 10)
    assert small.granted, "a head that cannot start without the missing nodes holds nobody up"
    scheduler.end(small, 60)
    assert not whole.granted
    assert cluster.free == 16 - cluster.out_of_service
    cluster.resume(out)
    assert scheduler.wake(61) == [whole]
    assert cluster.free == 0


@pytest.mark.parametrize("policy", ["easy", "easy-sjbf", "easy-slack:0", "no-starvation:10"])
def test_a_node_that_is_to_leave_with_its_job_takes_no_free_node_from_others(policy: str) -> None:
    cluster = MappedCluster(machine_from("mesh2d:4x1"))
    scheduler = Scheduler(policy_maker(policy)(cluster))
    first, second, head, other = (
        SimulatedJob(id=at, submit_s=0, nodes=2, requested_s=length_s, run_s=length_s)
        for at, length_s in enumerate((20, 5, 9, 9))
    )
    for job in (first, second, head, other):
        scheduler.submit(job, 0)
    cluster.drain([0])
    assert not scheduler.wake(1)
    assert cluster.promise(head, 1).shadow_s == 5
    assert scheduler.end(second, 5) == [head]
    assert head.partition.nodes == (2, 3)


@pytest.mark.parametrize("cluster", [Cluster(4), MappedCluster(machine_from("mesh2d:2x2"))])
def test_a_cluster_knows_its_nodes_by_number(cluster: Cluster) -> None:
    for wrong in ([4], [0, -1]):
        with pytest.raises(InvalidInput):
            cluster.drain(wrong)
        with pytest.raises(InvalidInput):
            cluster.resume(wrong)
    assert (cluster.free, cluster.out_of_service) == (4, 0)


def test_reservations_that_find_no_partition_are_refused_with_the_time_that_would_do() -> None:
    first, second = Reservation(0, 10, 2, "first"), Reservation(5, 9, 4, "second")
    with pytest.raises(InvalidInput, match=r"second: .*begin at 10"):
        MappedCluster(machine_from("mesh2d:2x2"), [second, first])
    with pytest.raises(InvalidInput, match="make it smaller"):
        MappedCluster(machine_from("mesh2d:2x2"), [Reservation(0, 1, 5)])


def test_a_machine_with_jobs_on_it_is_refused() -> None:
    machine = machine_from("mesh2d:2x2")
    machine.place(1)
    with pytest.raises(InvalidInput, match="1 nodes are taken"):
        MappedCluster(machine)


def test_a_machine_that_is_partly_drained_begins_with_what_is_in_service() -> None:
    machine = machine_from("mesh2d:4x4:2x2")
    machine.drain([0])
    cluster = MappedCluster(machine)
    assert (cluster.free, cluster.out_of_service) == (12, 4)
    cluster.resume([0])
    assert (cluster.free, cluster.out_of_service) == (16, 0)
