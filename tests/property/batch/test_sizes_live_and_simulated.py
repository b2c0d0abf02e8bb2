"""Policies that choose and change sizes decide in a live queue as in a simulation with the same costs."""

from __future__ import annotations

import random
from collections import Counter
from heapq import heappop, heappush

import pytest
from tests import effort

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Resize, Start
from kalends.batch.queue.queue import BatchQueue
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.registry import policy_maker
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.kernel import replay
from kalends.simulation.malleable import Course, MalleableJob

NODES = 8
JOBS = 14


class NotedJob(MalleableJob, eq=False):
    """A job that notes when it has changed."""

    changed_s: list[int] = []

    def changed(self, now: int) -> int:
        self.changed_s.append(now)
        return super().changed(now)


def workload(seed: int) -> list[NotedJob]:
    """Jobs that are over exactly when they are expected to be, on any sequence of sizes."""
    draw = random.Random(seed)
    jobs, now = [], 0
    for number in range(1, JOBS + 1):
        now += draw.randint(1, 2_000)
        sizes = draw.choice([(1, 2, 4), (1, 4, 8), (2, 4), (2, 3, 8)])
        iterations, change_s = draw.randint(5, 40), draw.randint(0, 60)
        step_s = sorted(draw.sample(range(3, 120), len(sizes)), reverse=True)
        course = Course(
            sizes=sizes, solution_s=tuple(iterations * each for each in step_s), iterations=iterations,
            every=draw.choice([1, 1, 3]), reconfiguration_s=change_s, redistribution_s=change_s,
        )  # fmt: skip
        molds = course.molds(malleable=draw.random() < 0.8)
        jobs.append(
            NotedJob(number, now, sizes[0], molds.requested_s[0], molds=molds, course=course)
        )
    return jobs


class Programs:
    """The programs of a live queue: they begin at once, and change and end as their courses say."""

    def __init__(self, policy: str) -> None:
        terms = f.Terms(machine=f"pool:{NODES}", policy=policy, change_s=10**9)
        self.queue = BatchQueue("lab/box", terms, 0)
        self.jobs: dict[int, NotedJob] = {}
        self.ends: list[tuple[int, int, int]] = []
        """When something becomes of a job, in the order of the simulation: ``(time, run, number)``."""
        self.runs = 0
        self.changes: dict[int, int] = {}

    def play(self, jobs: list[NotedJob]) -> None:
        ahead = jobs[::-1]
        while ahead or self.ends:
            submit_s = ahead[-1].submit_s if ahead else 1 << 60
            end_s = self.ends[0][0] if self.ends else 1 << 60
            due_s = self.queue.next_due_s()
            if due_s is not None and due_s < min(submit_s, end_s):
                self.queue.advance(due_s)
                self.carry_out(due_s)
            elif submit_s <= end_s:
                self.submit(ahead.pop())
            else:
                self.pass_end(*heappop(self.ends))

    def submit(self, job: NotedJob) -> None:
        assert job.molds is not None
        molds = job.molds
        request = JobRequest(
            machine="lab/box", command=("true",), nodes=job.nodes, sizes=molds.sizes,
            limits_s=molds.requested_s, limit_s=max(molds.requested_s), malleable=molds.malleable,
            change_s=molds.reconfiguration_s,
        )  # fmt: skip
        self.jobs[job.id] = job
        number, _ = self.queue.submit(Principal("ann"), request, f"key-{job.id:06}", job.submit_s)
        assert number == job.id
        self.carry_out(job.submit_s)

    def pass_end(self, now: int, run: int, number: int) -> None:
        job = self.jobs[number]
        if run != job.run:
            return
        if job.end_s == now:
            job.granted = 0
            self.queue.ended(number, 1, f.JobEnding(kind="exit"), now)
        else:
            assert job.course is not None
            job.changed(now)
            job.nodes = job.granted = job.target
            job.target = 0
            took_s = float(job.course.redistribution_s)
            self.queue.size_changed(number, self.changes[number], job.nodes, took_s, now)
        self.carry_out(now)

    def carry_out(self, now: int) -> None:
        """Do what follows from a step, and from what follows from that."""
        while actions := self.queue.take_effects().actions:
            for action in actions:
                if not isinstance(action, Start | Resize):
                    continue
                job = self.jobs[action.job.number]
                if isinstance(action, Start):
                    job.nodes = job.granted = len(action.nodes)
                    job.start_s = now
                else:
                    job.target, job.granted = len(action.nodes), max(job.granted, len(action.nodes))
                    self.changes[job.id] = action.change
                job.reckon(now)
                self.runs += 1
                job.run = self.runs
                heappush(self.ends, (job.end_s, job.run, job.id))
                if job.change_s >= 0:
                    heappush(self.ends, (job.change_s, job.run, job.id))
            for action in actions:
                if isinstance(action, Start):
                    self.queue.begun(action.job.number, 1, now)


def simulated(policy: str, seed: int) -> list[NotedJob]:
    jobs = workload(seed)
    list(replay(jobs, Scheduler(policy_maker(policy)(Cluster(NODES)))))
    return jobs


def untied(jobs: list[NotedJob]) -> bool:
    """Whether nothing happens in the same second to two jobs: there, a simulation counts on ends to come."""
    times = Counter(job.submit_s for job in jobs)
    times.update(job.end_s for job in jobs)
    times.update(each for job in jobs for each in job.changed_s)
    return max(times.values()) == 1


@pytest.mark.parametrize("policy", ["lazy", "adaptive", "reconfigurable"])
def test_a_live_queue_decides_about_sizes_as_a_simulation_that_is_given_the_measured_costs(
    policy: str,
) -> None:
    compared = changes = 0
    for seed in range(effort.examples(60)):
        expected = simulated(policy, seed)
        if not untied(expected):
            continue
        live = Programs(policy)
        live.play(jobs := workload(seed))
        found = {job.id: job.stretches() for job in jobs}
        assert found == {job.id: job.stretches() for job in expected}, seed
        compared += 1
        changes += sum(job.changes for job in expected)
    assert compared > 40
    assert (changes > 100) == (policy == "reconfigurable"), changes
    effort.steps[f"sizes under {policy}, live and simulated"] += compared
