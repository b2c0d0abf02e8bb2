"""Small random logs for policies, and what a policy decides on them."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
from hypothesis import strategies as st

from kalends.scheduling import Cluster, Job, Policy, Reservation, Scheduler, policy_maker
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay
from tests.policy_twins import TWINS, Twin, simulate

NODES_MAX = 6
LONGEST_S = 7


class SmallLog(msgspec.Struct, frozen=True):
    """Jobs as ``(submit, nodes, requested, run, priority)``; reservations as ``(start, end, nodes)``."""

    nodes: int
    jobs: tuple[tuple[int, int, int, int, int], ...]
    reservations: tuple[tuple[int, int, int], ...] = ()

    def simulated(self) -> list[SimulatedJob]:
        return [
            SimulatedJob(
                id=100 + number, submit_s=submit, nodes=nodes, requested_s=requested, run_s=run,
                priority=priority, user=number % 3, share=1 + number % 3,
            )
            for number, (submit, nodes, requested, run, priority) in enumerate(self.jobs)
        ]  # fmt: skip

    def reserved(self) -> list[Reservation]:
        return [Reservation(start, end, nodes) for start, end, nodes in self.reservations]

    def cluster(self) -> Cluster:
        return Cluster(self.nodes, self.reserved())


@st.composite
def small_logs(
    draw: st.DrawFn, *, exact: bool | None = None, reserved: bool | None = None, jobs_max: int = 14
) -> SmallLog:
    """`exact`: run times are the requested ones; `reserved`: there are advance reservations."""
    nodes = draw(st.integers(1, NODES_MAX))
    exact = draw(st.booleans()) if exact is None else exact
    time = st.integers(1, LONGEST_S)
    job = st.tuples(st.integers(0, 4), st.integers(1, nodes), time, time, st.integers(0, 3))
    jobs, now = [], 0
    number = draw(st.integers(1, jobs_max))
    for gap, width, first, second, priority in draw(
        st.lists(job, min_size=number, max_size=number)
    ):
        now += max(gap - 2, 0)
        requested = max(first, second)
        run = requested if exact else min(first, second)
        jobs.append((now, width, requested, run, priority))
    kept: list[tuple[int, int, int]] = []
    if draw(st.booleans()) if reserved is None else reserved:
        block = st.tuples(st.integers(0, 25), st.integers(1, 8), st.integers(1, nodes))
        for start, length, width in draw(st.lists(block, min_size=1, max_size=5)):
            _keep(kept, (start, start + length, width), nodes)
    return SmallLog(nodes, tuple(jobs), tuple(kept))


def crowded_log(seed: int) -> SmallLog:
    """A log of up to 18 jobs that mostly wait; every third has reservations, four in ten exact times.

    Uniform draws crowd a queue better than Hypothesis, which likes small numbers; many jobs are alike.
    """
    draw = random.Random(seed)
    nodes = draw.randint(2, 8)
    exact = draw.random() < 0.4
    jobs: list[tuple[int, int, int, int, int]] = []
    now = 0
    for _ in range(draw.randint(3, 18)):
        now += draw.choice((0, 0, 0, 1, 1, 2, 5))
        width = draw.randint(1, draw.choice((nodes, (nodes + 1) // 2)))
        run, requested = sorted((draw.randint(1, 9), draw.randint(1, 9)))
        if jobs and draw.random() < 0.3:
            _, width, requested, run, _ = draw.choice(jobs)
        jobs.append((now, width, requested, requested if exact else run, draw.randint(0, 3)))
    kept: list[tuple[int, int, int]] = []
    for _ in range(0 if seed % 3 else draw.randint(1, 4)):
        start, length, width = draw.randint(0, 30), draw.randint(1, 8), draw.randint(1, nodes)
        _keep(kept, (start, start + length, width), nodes)
    return SmallLog(nodes, tuple(jobs), tuple(kept))


def deep_log(seed: int) -> SmallLog:
    """A log of 40 jobs that come within a minute: many wait, and often several begin in the same second."""
    draw = random.Random(seed)
    nodes = draw.randint(2, 8)
    jobs: list[tuple[int, int, int, int, int]] = []
    now = 0
    for _ in range(40):
        now += draw.choice((0, 0, 0, 1, 2))
        run, requested = sorted((draw.randint(1, 6), draw.randint(1, 6)))
        jobs.append((now, draw.randint(1, nodes), requested, run, 0))
    return SmallLog(nodes, tuple(jobs))


def _keep(kept: list[tuple[int, int, int]], block: tuple[int, int, int], nodes: int) -> None:
    """Reserve what there is room for."""
    start, end, width = block
    used = [sum(each[2] for each in kept if each[0] <= at < each[1]) for at in range(start, end)]
    if max(used) + width <= nodes:
        kept.append(block)


class Recording(Scheduler):
    """A scheduler that keeps its decisions: time, order of submission, nodes given (0 to the stopped).

    On a live cluster whoever is asked to stop does so at once.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.decisions: list[tuple[int, int, int]] = []

    def submit(self, job: Job, now: int) -> list[Job]:
        return self.passed(super().submit(job, now), now)

    def end(self, job: Job, now: int) -> list[Job]:
        return self.passed(super().end(job, now), now)

    def wake(self, now: int) -> list[Job]:
        return self.passed(super().wake(now), now)

    def passed(self, touched: list[Job], now: int) -> list[Job]:
        """The policy has looked, and these jobs were started or stopped."""
        for place, job in enumerate(touched):
            again = any(other is job for other in touched[place + 1 :])
            gone = again or job.stopping
            self.decisions.append((now, job.order, 0 if gone else job.granted))
        for job in [each for each in touched if each.stopping]:
            touched += self.stopped(job, now)
        return touched


def decided(
    log: SmallLog, policy: str, cluster: Callable[[SmallLog], Cluster] = SmallLog.cluster
) -> list[tuple[int, int, int]]:
    """All that the policy decides on the log."""
    scheduler = Recording(policy_maker(policy)(cluster(log)))
    ended = list(replay(log.simulated(), scheduler))
    assert len(ended) == len(log.jobs)
    assert scheduler.waiting == 0
    return scheduler.decisions


def decided_by_twin(log: SmallLog, policy: str) -> list[tuple[int, int, int]]:
    """All that the policy's slow twin decides on the log."""
    jobs = [
        Twin(order, submit, nodes, requested, run, priority)
        for order, (submit, nodes, requested, run, priority) in enumerate(log.jobs)
    ]
    return simulate(jobs, log.nodes, list(log.reservations), TWINS[policy]())
