"""A cluster whose nodes leave service and come back, under a policy: events by chance, checked each time."""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from kalends.machines.spec import machine_from
from kalends.scheduling import Cluster, Job, Scheduler, policy_maker
from kalends.scheduling.grid import Grid
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.placement import ClusterSpec
from kalends.scheduling.reservations import Reservation
from kalends.simulation.job import SimulatedJob

Make = Callable[[list[Reservation]], Cluster]

CLUSTERS: Final[dict[str, Make]] = {
    "counted": lambda reserved: Cluster(8, reserved),
    "pool": lambda reserved: MappedCluster(machine_from("pool:8"), reserved),
    "mesh": lambda reserved: MappedCluster(machine_from("mesh2d:4x2"), reserved),
    "grid": lambda reserved: Grid([ClusterSpec.of(3), ClusterSpec.of(5, 2.0)], {1: reserved}),
}
"""Clusters of eight nodes of every kind."""


class ServiceWorld:
    """Submissions, ends, withdrawn jobs, drained and resumed nodes, all drawn from one seed."""

    def __init__(self, policy: str, cluster: str, seed: int, *, reserved: bool = False) -> None:
        self.draw = random.Random(seed)
        kept = [Reservation(15, 22, 2), Reservation(40, 44, 3)] if reserved else []
        self.cluster = CLUSTERS[cluster](kept)
        self.scheduler = Scheduler(policy_maker(policy)(self.cluster))
        self.now = 0
        self.out: set[int] = set()
        self.jobs: list[SimulatedJob] = []
        self.unwanted: set[int] = set()
        self.ends: list[tuple[int, int, int, SimulatedJob]] = []
        self.runs = 0

    def run(self, number: int) -> None:
        """So many events by chance; then all nodes come back, and whatever waits must run."""
        for _ in range(number):
            self.pass_until(self.now + self.draw.choice((0, 0, 1, 2, 4)))
            events = (
                self.submit,
                self.submit,
                self.submit,
                self.drain,
                self.resume,
                self.withdraw,
            )
            self.draw.choice(events)()
        self.pass_until(self.now + 1)
        self.cluster.resume(sorted(self.out))
        self.out.clear()
        self.passed(self.scheduler.wake(self.now))
        self.pass_until(1 << 40)
        waiting = [job.id for job in self.scheduler.policy.waiting()]
        assert not waiting, f"jobs {waiting} wait for ever"
        for job in self.jobs:
            if job.order not in self.unwanted:
                assert job.end_s >= 0, f"job {job.id} was lost"
        assert self.cluster.free == self.cluster.nodes

    def submit(self) -> None:
        length_s = self.draw.randint(1, 9)
        job = SimulatedJob(
            id=len(self.jobs),
            submit_s=self.now,
            nodes=self.draw.randint(1, self.draw.choice((3, 8))),
            requested_s=length_s,
            run_s=self.draw.randint(1, length_s),
            priority=self.draw.randint(0, 3),
        )
        self.jobs.append(job)
        self.passed(self.scheduler.submit(job, self.now))

    def drain(self) -> None:
        nodes = self.draw.sample(range(8), self.draw.randint(1, 5))
        self.cluster.drain(nodes)
        self.out.update(nodes)
        self.passed(self.scheduler.wake(self.now))

    def resume(self) -> None:
        nodes = [node for node in sorted(self.out) if self.draw.random() < 0.7]
        self.cluster.resume(nodes)
        self.out.difference_update(nodes)
        self.passed(self.scheduler.wake(self.now))

    def withdraw(self) -> None:
        waiting = list(self.scheduler.policy.waiting())
        if waiting:
            job = self.draw.choice(waiting)
            self.unwanted.add(job.order)
            self.passed(self.scheduler.withdraw(job, self.now))

    def pass_until(self, time_s: int) -> None:
        """Tell all ends and wakes up to a time, in their order."""
        wakes = 0
        while True:
            wake_s = self.scheduler.wake_at(self.now)
            end_s = self.ends[0][0] if self.ends else None
            if wake_s is not None and wake_s <= time_s and (end_s is None or wake_s < end_s):
                assert wake_s >= self.now, "it asks to be woken in the past"
                wakes = wakes + 1 if wake_s == self.now else 0
                assert wakes < 100, "it asks to be woken for ever"
                self.now = wake_s
                self.passed(self.scheduler.wake(self.now))
            elif end_s is not None and end_s <= time_s:
                self.now, _, run, job = heappop(self.ends)
                if run == job.run:
                    self.passed(self.scheduler.end(job, self.now))
            else:
                break
        self.now = max(self.now, time_s) if time_s < 1 << 40 else self.now

    def passed(self, touched: list[Job]) -> None:
        for job in touched:
            assert isinstance(job, SimulatedJob)
            job.reckon(self.now)
            self.runs += 1
            job.run = self.runs
            if job.granted:
                heappush(self.ends, (job.end_s, self.runs, self.runs, job))
        self.check(touched)

    def check(self, touched: list[Job]) -> None:
        """Nobody has more than there is, nobody begins on what is out, nobody runs and waits."""
        cluster = self.cluster
        running = [job for until_s, _, job in cluster.ends if until_s > self.now]
        taken = sum(job.granted for job in running)
        assert taken <= cluster.nodes
        if not self.out and any(job.granted for job in touched):
            for time_s in {max(self.now, each.start_s) for each in cluster.reservations}:
                then = sum(job.granted for job in running if job.until_s > time_s)
                assert then + cluster.reservations.nodes_at(time_s) <= cluster.nodes, "reserved"
        for job in touched:
            if job.granted and isinstance(cluster, MappedCluster):
                assert job.partition is not None
                assert not self.out & set(job.partition.nodes)
                for room, kept in cluster.rooms:
                    if room.start_s < job.until_s and self.now < room.end_s:
                        assert not set(kept.nodes) & set(job.partition.nodes), "reserved"
        if isinstance(cluster, Grid):
            for part, has in enumerate(cluster.parts):
                assert sum(job.placed[part] for job in running) <= has.nodes
        if type(cluster) is Cluster and any(job.granted for job in touched):
            assert taken <= cluster.nodes - len(self.out), (
                "it began on nodes that are out of service"
            )
        waiting = list(self.scheduler.policy.waiting())
        assert len(waiting) == self.scheduler.waiting
        assert not {job.order for job in waiting} & {job.order for _, _, job in cluster.ends}
