"""A busy machine's jobs as bookings from now on: made from a seed, and started by a real policy. Pure.

Jobs come by day more than by night, on powers of two of nodes, and run from half a minute to half a day:
as likely for minutes as for hours. They ask for a round time that is longer. `easy` has started them for two
days when the demo begins; those that run then, and those that it starts within a day, are the bookings.
Starts and ends are rounded up alike, so that jobs that followed one another still do and never more nodes
are taken; jobs that would have no length left are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import cos, pi
from random import Random
from typing import Final, NamedTuple

from kalends.core.intervals import Interval, align_up
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.policies.backfill.easy import Easy
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay

NODES: Final = 128
SEED: Final = 1997

DAY_S: Final = 24 * 3_600
AHEAD_S: Final = DAY_S
"""The jobs of one day: enough to be busy, and the machine is free again the day after."""

LEAD_S: Final = 5 * 60
"""The first bookings begin this much later than they are made: until then jobs have the machine."""

OPENED_S: Final = 2 * DAY_S + 9 * 3_600
"""The demo begins when the machine is full for the first time after the third morning, at nine."""

MEAN_GAP_S: Final = 500.0
RUN_S: Final = (30.0, 43_200.0)
LIMITS_S: Final = (900, 3_600, 2 * 3_600, 4 * 3_600, 8 * 3_600, 12 * 3_600, 18 * 3_600)
"""Times that people ask for."""


class JobBooking(NamedTuple):
    """One job as a booking."""

    interval: Interval
    nodes: int


def job_bookings(now_s: int, grain_s: int) -> list[JobBooking]:
    """Return the jobs that run when the demo begins or start within a day of it, in order of start."""
    ran = [(job.start_s, job.end_s, job.nodes) for job in days_of_jobs(SEED)]
    instant_s = full_at(ran)
    begin_s = align_up(now_s + LEAD_S, grain_s)
    moved = (
        (
            Interval(
                begin_s + align_up(max(start_s - instant_s, 0), grain_s),
                begin_s + align_up(end_s - instant_s, grain_s),
            ),
            nodes,
        )
        for start_s, end_s, nodes in sorted(ran)
        if start_s <= instant_s + AHEAD_S and end_s > instant_s
    )
    return [JobBooking(interval, nodes) for interval, nodes in moved if interval.length_s > 0]


def full_at(ran: list[tuple[int, int, int]]) -> int:
    """Return the first time, from `OPENED_S` on, at which jobs have every node."""
    for instant_s in sorted(start_s for start_s, _, _ in ran if start_s >= OPENED_S):
        if sum(nodes for start_s, end_s, nodes in ran if start_s <= instant_s < end_s) == NODES:
            return instant_s
    raise ValueError("the machine is never full: take another seed")


def days_of_jobs(seed: int) -> Iterator[SimulatedJob]:
    """Yield the jobs of the days, started by `easy`, each when it has ended."""
    return replay(_submitted(Random(seed)), Scheduler(Easy(Cluster(NODES))))


def _submitted(random: Random) -> Iterator[SimulatedJob]:
    at_s, number = 0.0, 0
    while True:
        at_s += random.expovariate(_rate(at_s))
        if at_s >= OPENED_S + AHEAD_S:
            return
        number += 1
        low_s, high_s = RUN_S
        run_s = int(low_s * (high_s / low_s) ** random.random())
        wished_s = run_s * (1 + 3 * random.random() ** 2)
        limit_s = next((each for each in LIMITS_S if each >= wished_s), LIMITS_S[-1])
        nodes = 1 << min(int(random.triangular(0, 7.99, 3)), 6)
        yield SimulatedJob(number, int(at_s), nodes, limit_s, run_s=run_s)


def _rate(at_s: float) -> float:
    """Return the jobs a second at a time of the day: most at two in the afternoon, least at two at night."""
    return (1 - 0.7 * cos(2 * pi * (at_s / DAY_S - 2 / 24))) / MEAN_GAP_S
