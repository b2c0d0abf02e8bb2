"""Fair shares live: a queue starts the jobs of a log as the simulator does, after a restart too."""

from __future__ import annotations

import random

import pytest
from tests import effort

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Start
from kalends.batch.queue.queue import BatchQueue
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.scheduling import Cluster, Scheduler, policy_maker
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay

NODES = 6
SHARES = {"dna": 3, "ann": 2}
CLASSES = {"low": 1, "normal": 2, "high": 3}
BEGIN = 1_790_000_000


class LiveJob:
    def __init__(self, draw: random.Random, number: int, at: int) -> None:
        self.number, self.at = number, at
        self.nodes, self.run_s = draw.randint(1, NODES), draw.randint(1, 40)
        self.limit_s = self.run_s + draw.randint(1, 20)
        self.user = draw.choice(["ann", "bob", "eve"])
        self.project = draw.choice(["", "dna", "rna"])
        self.priority = draw.choice(["low", "normal", "normal", "high"])

    def request(self) -> JobRequest:
        return JobRequest(
            machine="lab/box", nodes=self.nodes, limit_s=self.limit_s, project=self.project,
            priority=self.priority, command=("true",),
        )  # fmt: skip

    def simulated(self, by: str) -> SimulatedJob:
        name = self.user if by == "user" else self.project
        return SimulatedJob(
            self.number, self.at, self.nodes, self.limit_s, CLASSES[self.priority],
            account=["ann", "bob", "eve", "", "dna", "rna"].index(name),
            share=SHARES.get(name, 1), run_s=self.run_s,
        )  # fmt: skip


def jobs_of(seed: int) -> list[LiveJob]:
    draw, at, jobs = random.Random(seed), BEGIN, []
    for number in range(1, 25):
        at += draw.choice((0, 1, 3, 10))
        jobs.append(LiveJob(draw, number, at))
    return jobs


def live_starts(jobs: list[LiveJob], terms: f.Terms, restart_every: int) -> dict[int, int]:
    """Submissions come first in their second, then ends in the order of the starts, as in a simulation."""
    queue = BatchQueue("lab/box", terms, BEGIN)
    stored: list[f.JournalEntry] = []
    starts: dict[int, int] = {}
    coming, events = list(jobs), 0
    by_number = {job.number: job for job in jobs}
    running: list[tuple[int, int]] = []
    while coming or running:
        now = min([*(job.at for job in coming[:1]), *(end for end, _ in running)])
        if coming and coming[0].at == now:
            job = coming.pop(0)
            queue.submit(Principal(job.user), job.request(), f"key-{job.number:06}", now)
        else:
            end, number = next(each for each in running if each[0] == now)
            running.remove((end, number))
            queue.begun(number, 1, now)
            queue.ended(number, 1, f.JobEnding(kind="exit"), now)
        effects = queue.take_effects()
        stored += effects.entries
        for action in effects.actions:
            if isinstance(action, Start):
                starts[action.job.number] = now
                running.append((now + by_number[action.job.number].run_s, action.job.number))
        events += 1
        if events % restart_every == 0:
            queue = BatchQueue("lab/box", terms, now, stored)
    return starts


@pytest.mark.parametrize("by", ["user", "project"])
@pytest.mark.parametrize("policy", ["fair-share", "fair-share:0", "fair-share:20"])
def test_a_queue_starts_jobs_as_the_simulator_does(policy: str, by: str) -> None:
    different = 0
    for seed in range(effort.examples(40)):
        jobs = jobs_of(seed)
        fair = f.FairShares(by=by, shares=SHARES)  # type: ignore[arg-type]
        terms = f.Terms(
            machine=f"pool:{NODES}",
            policy=policy,
            classes=CLASSES,
            fair_share=fair,
            class_members={"high": ("everyone",)},
        )
        scheduler = Scheduler(policy_maker(policy)(Cluster(NODES)))
        ended = replay(iter([job.simulated(by) for job in jobs]), scheduler)
        simulated = {job.id: job.start_s for job in ended}
        assert live_starts(jobs, terms, 7) == simulated, seed
        plain = Scheduler(policy_maker("easy")(Cluster(NODES)))
        easy = {
            job.id: job.start_s for job in replay(iter([job.simulated(by) for job in jobs]), plain)
        }
        different += easy != simulated
    assert different, "the shares have decided something"
