"""The logs that are measured: real ones repeated, and such that a queue stays as long as it is."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path
from typing import Final

from kalends.simulation.job import SimulatedJob
from kalends.simulation.workloads.swf import open_log

QUEUE_NODES: Final = 128
_MEAN_REQUEST_S: Final = 7_000


def line_of(job: SimulatedJob, number: int, submit_s: int) -> str:
    return (
        f"{number} {submit_s} -1 {job.run_s} {job.nodes} -1 -1 {job.nodes}"
        f" {job.requested_s} -1 1 1 1 1 1 1 -1 -1\n"
    )


def write_repeated(log: Path, out: Path, *, nodes: int, jobs: int) -> None:
    """Write a log of `jobs` jobs: those of `log` again and again, each time after the last submission."""
    number = shift_s = last_s = 0
    with out.open("w", encoding="ascii") as stream:
        while number < jobs:
            first_s: int | None = None
            for job in islice(open_log(log, nodes=nodes), jobs - number):
                first_s = job.submit_s if first_s is None else first_s
                last_s = shift_s + job.submit_s - first_s
                number += 1
                stream.write(line_of(job, number, last_s))
            shift_s = last_s


def write_one(log: Path, out: Path, *, nodes: int) -> None:
    """Write a log of a single job."""
    write_repeated(log, out, nodes=nodes, jobs=1)


def write_queue(out: Path, *, waiting: int, jobs: int, seed: int = 1) -> None:
    """Write a log in which `waiting` jobs are there at once, and `jobs` come as fast as others end.

    Sizes are powers of two, requested times are exponential, run times a random part of them.
    """
    chance = random.Random(seed)
    sizes = [1, 2, 4, 8, 16, 32, 64]
    work_s = sum(sizes) / len(sizes) * _MEAN_REQUEST_S / 2
    now_s = 0.0
    with out.open("w", encoding="ascii") as stream:
        for number in range(1, waiting + jobs + 1):
            if number > waiting:
                now_s += chance.expovariate(0.9 * QUEUE_NODES / work_s)
            requested_s = int(chance.expovariate(1 / _MEAN_REQUEST_S)) + 60
            run_s = max(1, int(requested_s * chance.random()))
            job = SimulatedJob(number, 0, chance.choice(sizes), requested_s, run_s=run_s)
            stream.write(line_of(job, number, int(now_s)))
