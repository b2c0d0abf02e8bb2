"""Variants of a workload: busier or calmer, and shaken.

One replay of one log is one sample; small changes of its input can change the means a good deal. Tsafrir,
Ouaknine and Feitelson (Reducing performance evaluation sensitivity and variability by input shaking,
MASCOTS 2007) repeat it with small random changes and report the mean.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from kalends.core.errors import InvalidInput
from kalends.core.limits import TIME_S_MAX
from kalends.simulation.job import SimulatedJob


def loaded(jobs: Iterable[SimulatedJob], load: float) -> Iterator[SimulatedJob]:
    """Return `jobs` at `load` times the arrival rate: times between submissions are divided by it.

    The first submission stays where it is. Raises `InvalidInput` for a load that is not above 0, and, at
    the job, for one so small that a job would be submitted after `TIME_S_MAX`.
    """
    if not 0 < load < float("inf"):
        raise InvalidInput(
            f"load {load} is not positive", where="load", remedy="give a number above 0, e.g. 1.1"
        )
    return iter(jobs) if load == 1 else _at_load(jobs, load)


def _at_load(jobs: Iterable[SimulatedJob], load: float) -> Iterator[SimulatedJob]:
    first_s: int | None = None
    for job in jobs:
        if first_s is None:
            first_s = job.submit_s
        after_s = (job.submit_s - first_s) / load
        if after_s > TIME_S_MAX:
            raise InvalidInput(
                f"under a load of {load} job {job.id} would be submitted after the year 3000",
                where="load",
                remedy="give a larger load",
            )
        job.submit_s = first_s + int(after_s)
        yield job


def shaken(jobs: Iterable[SimulatedJob], shift_s: int, seed: int) -> Iterator[SimulatedJob]:
    """Return `jobs`, each submitted up to `shift_s` earlier or later at random, in order again.

    The same seed gives the same shifts. No job is submitted before the first was. Keeps only the jobs
    of twice `shift_s` in memory. Raises `InvalidInput` for a shift below 0.
    """
    if not 0 <= shift_s <= TIME_S_MAX or shift_s != int(shift_s):
        raise InvalidInput(
            f"a shift of {shift_s}",
            where="shake",
            remedy="give 0 or more seconds, in whole seconds",
        )
    return _shifted(jobs, shift_s, random.Random(seed)) if shift_s else iter(jobs)


def _shifted(
    jobs: Iterable[SimulatedJob], shift_s: int, chance: random.Random
) -> Iterator[SimulatedJob]:
    held: list[tuple[int, int, SimulatedJob]] = []
    first_s: int | None = None
    for number, job in enumerate(jobs):
        if first_s is None:
            first_s = job.submit_s
        while held and held[0][0] < job.submit_s - shift_s:
            yield heappop(held)[2]
        job.submit_s = max(first_s, job.submit_s + chance.randint(-shift_s, shift_s))
        heappush(held, (job.submit_s, number, job))
    while held:
        yield heappop(held)[2]
