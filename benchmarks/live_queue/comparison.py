"""One log under one policy, simulated and live: when each job runs, on how many nodes."""

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
from kalends.simulation.treatment import Treatment


class Machine(NamedTuple):
    """What both sides are told of the machine: `text` as owners write it."""

    text: str
    reservations: tuple[Reservation, ...] = ()


class Course(NamedTuple):
    """When a job got nodes first, and when it was stopped and went on again."""

    start: Started
    pauses: tuple[tuple[int, int], ...] = ()


Courses = dict[int, Course]
"""By the number of the job in the log."""


def first_jobs(log: Path, count: int, treat: str = "") -> tuple[int, list[SimulatedJob]]:
    """Return the nodes of a log's machine, and its first jobs that can be simulated, treated so."""
    source = JobSource(log, keep_lines=True)
    jobs = islice(source.jobs(Cluster(source.nodes)), count)
    return source.nodes, list(Treatment.of(treat).apply(jobs) if treat else jobs)


def simulated(jobs: Sequence[SimulatedJob], policy: str, machine: Machine) -> Courses:
    """Return what `kalends.simulate` does with each job."""
    courses: Courses = {}

    def note(job: SimulatedJob) -> None:
        nodes = len(job.partition.nodes) if job.partition is not None else job.nodes
        courses[job.id] = Course(Started(job.id, job.start_s, nodes), job.pauses)

    kalends.simulate(
        jobs, policy=policy, machine=machine.text, reservations=machine.reservations,
        watchers=[note],
    )  # fmt: skip
    return courses


def live(
    jobs: Sequence[SimulatedJob], policy: str, machine: Machine, *, restarted: int = 0
) -> Courses:
    """Return what a queue does with each that is told the same jobs."""
    replay = LiveReplay(
        jobs, policy=policy, machine=machine.text, reservations=machine.reservations,
        shares={job.user: job.share for job in jobs}, restarted=restarted,
    )  # fmt: skip
    starts = replay.starts()
    return {job: Course(start, tuple(replay.pauses.get(job, ()))) for job, start in starts.items()}
