"""Jobs and sites of a federation, as they are drawn: many small, few large; known only by their limits."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, exp, log2
from random import Random
from typing import Final, NamedTuple

RUN_S_MEDIAN: Final = 490
RUN_SIGMA: Final = 1.3
RUN_S_MAX: Final = 86_400
WIDTH_MEAN_LOG2: Final = 1.6
WIDTH_MAX: Final = 64
LIMIT_FACTOR_MAX: Final = 3.0
"""Users ask for up to so many times what their jobs need."""

USERS: Final = 4
"""Users of each home, in the runs whose limits come from users who do not know how fast sites are."""
PADDING_MIN: Final = 1.5
PADDING_MAX: Final = 20.0
"""Their limits are so many times what the job needs where it is slowest: of each user about as many."""
PADDING_SIGMA: Final = 0.3

NODES_MIN: Final = 4
NODES_MAX: Final = 256
NODES_MEDIAN: Final = 11
NODES_SIGMA_LOG2: Final = 1.2
SPEEDS: Final = (0.5, 1.0, 1.0, 1.0, 2.0)


class FederatedJob(NamedTuple):
    """A job, submitted at the broker of site `home`; times are those on a node of speed 1.

    One of a `user` has the limit `limit_s` wherever it runs; else ("") that hangs on the speed as the run
    does.
    """

    number: int
    submit_ms: float
    home: int
    nodes: int
    run_s: float
    limit_s: float
    user: str = ""


class SiteNature(NamedTuple):
    nodes: int
    speed: float

    def seconds(self, of_speed_1_s: float) -> int:
        """Whole seconds that it takes here."""
        return max(1, -int(-of_speed_1_s // self.speed))

    def limit(self, job: FederatedJob) -> int:
        """The limit of a job here, in whole seconds."""
        return ceil(job.limit_s) if job.user else self.seconds(job.limit_s)


def natures(sites: int, draw: Random) -> list[SiteNature]:
    """The sites: most are small, some large."""

    def nodes() -> int:
        return int(2 ** draw.gauss(log2(NODES_MEDIAN), NODES_SIGMA_LOG2))

    return [
        SiteNature(min(max(nodes(), NODES_MIN), NODES_MAX), draw.choice(SPEEDS))
        for _ in range(sites)
    ]


def size(draw: Random, widest: int) -> tuple[int, float, float]:
    """Nodes, run time and limit of a job."""
    nodes = min(2 ** int(draw.expovariate(1 / WIDTH_MEAN_LOG2)), WIDTH_MAX, widest)
    run_s = min(RUN_S_MEDIAN * exp(draw.gauss(0, RUN_SIGMA)), RUN_S_MAX)
    return nodes, run_s, run_s * draw.uniform(1, LIMIT_FACTOR_MAX)


def left_over(draw: Random, widest: int) -> tuple[int, float, float]:
    """What is left of a job that runs when somebody looks: long ones are met more often than short ones."""
    nodes, _, _ = size(draw, widest)
    met_s = min(RUN_S_MEDIAN * exp(draw.gauss(RUN_SIGMA**2, RUN_SIGMA)), RUN_S_MAX)
    left_s = draw.random() * met_s
    return nodes, left_s, left_s * draw.uniform(1, LIMIT_FACTOR_MAX)


def stream(
    count: int, sites: list[SiteNature], load: float, burst: int, skew: float, draw: Random
) -> Iterator[FederatedJob]:
    """Poisson arrivals of bursts that ask for `load` of all there is.

    With a `skew` of 1 all homes bring as many; above it few bring most.
    """
    # Of ten sites, the largest may be small: a job that fits nowhere would say nothing.
    widest = sorted((site.nodes for site in sites), reverse=True)[min(4, len(sites) - 1)]
    sizes = [size(draw, widest) for _ in range(count)]
    work_s = sum(nodes * run_s for nodes, run_s, _ in sizes) / count
    capacity = sum(site.nodes * site.speed for site in sites)
    mean_ms = 1_000 * burst * work_s / (load * capacity)
    at_ms, home = 0.0, 0
    for number, (nodes, run_s, limit_s) in enumerate(sizes):
        if number % burst == 0:
            at_ms += draw.expovariate(1 / mean_ms)
            home = int(len(sites) * draw.random() ** skew)
        yield FederatedJob(number, at_ms, home, nodes, run_s, limit_s)


def padded(job: FederatedJob, seed: int) -> FederatedJob:
    """The job as one of a user of its home who knows no speeds, and is as careful as is their habit."""
    draw = Random(f"{seed} job {job.number}")
    user = f"user-{job.home}-{draw.randrange(USERS)}"
    habit = PADDING_MIN * (PADDING_MAX / PADDING_MIN) ** Random(f"{seed} {user}").random()
    padding = min(max(habit * exp(draw.gauss(0, PADDING_SIGMA)), PADDING_MIN), PADDING_MAX)
    return job._replace(user=user, limit_s=padding * job.run_s / min(SPEEDS))
