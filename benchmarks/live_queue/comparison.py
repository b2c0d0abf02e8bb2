"""One log under one policy, simulated and live: when each job starts, on how many nodes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import kalends
from benchmarks.live_queue.replay import LiveReplay, Started
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.reservations import Reservation
from kalends.simulation.job import SimulatedJob
from kalends.simulation.source import JobSource


class Machine(NamedTuple):
    """What both sides are told of the machine: `text` as owners write it."""

    text: str
    reservations: tuple[Reservation, ...] = ()


Starts = dict[int, Started]
"""By the number of the job in the log."""


def first_jobs(log: Path, count: int) -> tuple[int, list[SimulatedJob]]:
    """Return the nodes of a log's machine, and its first jobs that can be simulated."""
    source = JobSource(log)
    return source.nodes, list(islice(source.jobs(Cluster(source.nodes)), count))


def simulated(jobs: Sequence[SimulatedJob], policy: str, machine: Machine) -> Starts:
    """Return what `kalends.simulate` starts."""
    starts: Starts = {}

    def note(job: SimulatedJob) -> None:
        nodes = len(job.partition.nodes) if job.partition is not None else job.nodes
        starts[job.id] = Started(job.id, job.start_s, nodes)

    kalends.simulate(
        jobs, policy=policy, machine=machine.text, reservations=machine.reservations,
        watchers=[note],
    )  # fmt: skip
    return starts


def live(
    jobs: Sequence[SimulatedJob], policy: str, machine: Machine, *, restarted: int = 0
) -> Starts:
    """Return what a queue starts that is told the same jobs."""
    replay = LiveReplay(
        jobs, policy=policy, machine=machine.text, reservations=machine.reservations,
        shares={job.user: job.share for job in jobs}, restarted=restarted,
    )  # fmt: skip
    return replay.starts()
