"""On a topology: what a site takes for a reservation has nodes there, and delays no job with a promise."""

from __future__ import annotations

import random

import pytest
from tests import effort

from kalends.batch.queue import facts as f
from kalends.batch.queue.queue import BatchQueue
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.scheduling.mapped import MappedCluster

MACHINES = ["mesh2d:4x4", "mesh2d:8x6:2x2", "torus3d:3x2x2", "hypercube:4"]
POLICIES = ["conservative", "ffdh", "ffih", "ffdh*", "ffih*", "fcfs*"]


class Crowd:
    """Jobs, ends and reservations by chance on one machine; some jobs end before their time."""

    def __init__(self, machine: str, policy: str, seed: int) -> None:
        self.draw = random.Random(f"{machine} {policy} {seed}")
        self.queue = BatchQueue("lab/box", f.Terms(machine=machine, policy=policy), 1_000)
        self.now = 1_000
        self.claims: dict[int, f.NodeClaim] = {}
        self.taken = self.refused = self.jobs = 0

    @property
    def cluster(self) -> MappedCluster:
        cluster = self.queue.flow.room.scheduler.cluster
        assert isinstance(cluster, MappedCluster)
        return cluster

    def run(self, number: int) -> None:
        for _ in range(number):
            self.now += self.draw.choice((0, 0, 1, 3))
            self.pass_time()
            self.draw.choice((self.submit, self.submit, self.end, self.reserve, self.reserve))()
            effects = self.queue.take_effects()
            assert not effects.unplaced
            self.check_nodes()

    def submit(self) -> None:
        self.jobs += 1
        request = JobRequest(
            machine="lab/box", nodes=self.draw.randint(1, self.cluster.nodes // 2),
            limit_s=self.draw.randint(1, 20), command=("true",),
        )  # fmt: skip
        self.queue.submit(Principal("ann"), request, f"the-key-{self.jobs}", self.now)

    def end(self) -> None:
        running = [job.number for job in self.queue.flow.table if job.nodes]
        if running:
            self.over(self.draw.choice(running))

    def pass_time(self) -> None:
        """Every job ends by its limit, and whatever is due happens in its second."""
        while True:
            ends = [
                (job.started_s + job.limit_s, job.number)
                for job in self.queue.flow.table
                if job.nodes
            ]
            due_s = self.queue.next_due_s()
            if ends and min(ends)[0] <= min(self.now, due_s or self.now):
                until_s, number = min(ends)
                self.queue.ended(number, 1, f.JobEnding(kind="limit"), until_s)
            elif due_s is not None and due_s <= self.now:
                self.queue.advance(due_s)
            else:
                return

    def over(self, number: int) -> None:
        self.queue.ended(number, 1, f.JobEnding(kind="exit"), self.now)

    def reserve(self) -> None:
        start = self.now + self.draw.randint(0, 25)
        number = len(self.claims) + 1
        claim = f.NodeClaim(
            number, start, start + self.draw.randint(1, 15),
            self.draw.randint(1, self.cluster.nodes // 2),
        )  # fmt: skip
        if not self.queue.flow.room.have_room((claim,), (), self.now):
            self.refused += 1
            return
        before = self.queue.flow.room.promises()
        self.queue.claims_changed((), (claim,), self.now)
        self.claims[number] = claim
        self.taken += 1
        after = self.queue.flow.room.promises()
        for job, start_s in before.items():
            assert after.get(job, self.now) <= start_s, "a promised start is no later"

    def check_nodes(self) -> None:
        """Whatever is reserved now is nobody's job's, and as many nodes as were asked for."""
        busy = [node for job in self.queue.flow.table for node in job.nodes]
        for room, kept in self.cluster.rooms:
            if room.start_s <= self.now < room.end_s:
                assert len(kept.nodes) >= self.claims[int(room.name)].nodes
                busy += kept.nodes
        assert len(busy) == len(set(busy)), "no node is counted twice"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("machine", MACHINES)
def test_reservations_that_are_taken_have_nodes_and_delay_no_promised_start(
    machine: str, policy: str
) -> None:
    taken = refused = 0
    for seed in range(effort.examples(12)):
        crowd = Crowd(machine, policy, seed)
        crowd.run(60)
        taken, refused = taken + crowd.taken, refused + crowd.refused
    assert taken > 20
    assert refused > 20, "among those whose units a calendar may have free"
