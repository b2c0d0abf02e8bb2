"""Policies of Konuru, Moreira and Naik 1996 on the same arrivals: one run, and what is measured in it.

Beside them runs a queue whose mean wait is known exactly: M/G/1, which serves every job as long as all 32
processors together would take for its work on one, and once more with a server that is a tenth slower.
When that queue was longer than it should be, so was everybody's. It is a control, and leaves a tenth to a
half of the variance of a mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from time import process_time
from typing import Any, Final

from drms_applications import CATEGORIES, PROCESSORS, TABLE_1, Mix
from oracles import single_server_wait
from paired_means import PairedMeans

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.policies.moldable.moldable import Adaptive, Lazy
from kalends.scheduling.policies.moldable.reconfigurable import INTERVAL, Reconfigurable
from kalends.scheduling.policy import Policy
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay
from kalends.simulation.malleable import MalleableJob

SATURATED: Final = 2000
"""When this many jobs wait, the queue is taken to grow without end."""
BATCHES: Final = 16
"""The batches of a run that count. One more runs first, as a warm-up."""
SPEEDS: Final = (1.0, 0.9)
"""The speeds of the single servers that serve as controls, fastest first."""
SERVICE_MS: Final = tuple(1000 * each.time_s(1) / PROCESSORS for each in TABLE_1)
"""How long all processors together would take for the work of each row of Table 1."""


@dataclass(frozen=True)
class Contender:
    """One policy, and what it may do with the jobs."""

    label: str
    policy: str
    mix: Mix
    interval: int = INTERVAL

    def scheduler(self) -> Scheduler:
        cluster = Cluster(PROCESSORS)
        makers: dict[str, Callable[[], Policy]] = {
            "LS": lambda: Lazy(cluster),
            "AS": lambda: Adaptive(cluster),
            "RS": lambda: Reconfigurable(cluster, self.interval),
        }
        return Scheduler(makers[self.policy]())


@dataclass(frozen=True)
class Point:
    """Contenders on the same arrivals, compared with the one that is named `baseline`."""

    contenders: tuple[Contender, ...]
    baseline: str
    utilization: float
    batch: int
    """Jobs in a batch."""

    @property
    def mix(self) -> Mix:
        return self.contenders[0].mix

    @property
    def labels(self) -> list[str]:
        return [each.label for each in self.contenders]

    @property
    def name(self) -> str:
        return f"{self.mix.name} at {self.utilization:.2f}"

    @property
    def jobs(self) -> int:
        """In one run."""
        return (1 + BATCHES) * self.batch

    def means(self) -> PairedMeans:
        """Without any runs so far: responses of all jobs and of each category, and how many these have."""
        of_category = [f"{label} {name}" for label in self.labels for name in CATEGORIES]
        return PairedMeans(
            [*self.labels, *of_category, *CATEGORIES],
            single_server_waits(self.mix, self.utilization),
            size=self.batch,
        )


def run(point: Point, seed: int) -> dict[str, Any]:
    """One run of all contenders on the same jobs, from an empty machine: its batches, as JSON has them.

    Where a queue grows without end it says whose, and has no batches.
    """
    before_s = process_time()
    means = point.means()
    watch_arrivals(point, seed, means)
    told: dict[str, Any] = {**settings(point), "seed": seed, "saturated": "", "changes_per_job": {}}
    for contender in point.contenders:
        scheduler = contender.scheduler()
        ended = replay(contender.mix.jobs(point.utilization, seed), scheduler)
        changes = watch_responses(contender.label, ended, scheduler, point.jobs, means)
        if changes is None:
            told["saturated"] = contender.label
            break
        told["changes_per_job"][contender.label] = changes
    told["seconds"] = process_time() - before_s
    if not told["saturated"]:
        means.close(point.jobs)
        told["batches"] = means.batches
    return told


SETTINGS: Final = ("workload", "utilization", "contenders", "batch")


def settings(point: Point) -> dict[str, Any]:
    """What runs of one point have in common."""
    values = (point.mix.name, point.utilization, point.labels, point.batch)
    return dict(zip(SETTINGS, values, strict=True))


def watch_responses(
    label: str,
    ended: Iterator[SimulatedJob],
    scheduler: Scheduler,
    jobs: int,
    means: PairedMeans,
) -> float | None:
    """Take the response times of the first `jobs` jobs, in seconds, until the last of them has ended.

    Others come and go meanwhile, and do not count. Says how often a job was changed on average; None if
    the queue grows without end.
    """
    of_category = [f"{label} {name}" for name in CATEGORIES]
    left, changes = jobs, 0
    for job in ended:
        if job.order < jobs:
            response_s = (job.end_s - job.submit_s) / 1000
            means.add(label, job.order, response_s)
            means.add(of_category[job.user], job.order, response_s)
            changes += job.changes if isinstance(job, MalleableJob) else 0
            left -= 1
            if not left:
                break
        if scheduler.waiting > SATURATED:
            return None
    return changes / jobs


def watch_arrivals(point: Point, seed: int, means: PairedMeans) -> None:
    """Take what is known of the jobs before any policy has seen them: their categories, and the controls."""
    waits_ms = dict.fromkeys(means.controls, 0.0)
    speeds = dict(zip(waits_ms, SPEEDS, strict=False))
    arrivals = islice(point.mix.arrivals(point.utilization, seed), point.jobs)
    last_ms = 0.0
    for number, (now_ms, row) in enumerate(arrivals):
        means.add(TABLE_1[row].category, number, 1)
        for of, speed in speeds.items():
            # Lindley's recursion: what is left of the work when this job comes, and then its own.
            wait_ms = max(waits_ms[of] - (now_ms - last_ms), 0.0)
            means.add(of, number, wait_ms)
            waits_ms[of] = wait_ms + SERVICE_MS[row] / speed
        last_ms = now_ms


def single_server_waits(mix: Mix, utilization: float) -> dict[str, float]:
    """The controls: the true mean wait in M/G/1, in milliseconds, for every speed that is enough."""
    rates = mix.rates(utilization)
    whole = sum(rates)
    mean, square = (
        sum(rate * each**power for rate, each in zip(rates, SERVICE_MS, strict=True)) / whole
        for power in (1, 2)
    )
    return {
        f"M/G/1 at speed {speed}": single_server_wait(whole, mean / speed, square / speed**2)
        for speed in SPEEDS
        if utilization < speed
    }
