"""The utilization when jobs never stop coming."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from kalends.scheduling.policy import Policy
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay


def all_at_once(jobs: int, mean_run: int, draw: Random) -> Iterator[SimulatedJob]:
    """Yield jobs all submitted at 0, of one node and with known exponential run times."""
    for number in range(jobs):
        run = max(round(draw.expovariate(1 / mean_run)), 1)
        yield SimulatedJob(id=number, submit_s=0, nodes=1, requested_s=run, run_s=run)


def utilization_while_waiting(jobs: Iterable[SimulatedJob], policy: Policy) -> float:
    """Return the share of all nodes that work until the last job begins; after that, no job waits any more.

    Keeps start, end and nodes of every job.
    """
    ran = [(job.start_s, job.end_s, job.nodes) for job in replay(jobs, Scheduler(policy))]
    first, last = min(start for start, _, _ in ran), max(start for start, _, _ in ran)
    worked = sum((min(end, last) - start) * nodes for start, end, nodes in ran)
    return worked / (policy.cluster.nodes * (last - first))
