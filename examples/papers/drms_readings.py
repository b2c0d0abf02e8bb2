"""Konuru, Moreira and Naik 1996: under which reading does RS halve the mean response "across all categories"?

    python examples/papers/drms_readings.py [--jobs 30000] [--seeds 4] [--quick] [--json]

The paper says so of "several instances of our experiments"; drms_policies.py finds up to 1.79 for all
jobs together. Here LS is compared with RS on the workloads and utilizations with the largest ratios, under
other laws of speedup, other policies and other means, one change at a time and some together.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from math import log, sqrt
from statistics import fmean, stdev
from typing import Any, Final

from drms_applications import (
    CATEGORIES,
    PROCESSORS,
    SIZES,
    TABLE_1,
    Application,
    Mix,
)

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.policies.moldable.moldable import Lazy, SizingPolicy
from kalends.scheduling.policies.moldable.reconfigurable import Reconfigurable
from kalends.scheduling.policy import Policy
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.kernel import replay

WORKLOADS: Final = ((15, 25, 60), (25, 25, 50))
UTILIZATIONS: Final = (0.4, 0.6)
WARM_UP: Final = 0.1
"""The share of the jobs that comes first and does not count."""
MEASURES: Final = ("all jobs", "mean of the categories' ratios", "mean of the categories' means")


class PowerLaw(Application):
    """T(p) = c / p^a through both times of Table 1, instead of Amdahl's law."""

    def time_s(self, processors: int) -> float:
        few, many = SIZES[self.category][0], SIZES[self.category][-1]
        power = log(self.slowest_s / self.fastest_s) / log(many / few)
        return self.slowest_s * float(few / processors) ** power


class PerfectBelow(Application):
    """Amdahl's law where a job may run, and below that perfect speedup: most work on one processor."""

    def time_s(self, processors: int) -> float:
        few = SIZES[self.category][0]
        return super().time_s(max(processors, few)) * max(few / processors, 1)


class LazyInOrder(SizingPolicy):
    """LS that skips nobody: the first of the queue, on as many nodes as it can take."""

    def schedule(self, now: int) -> None:
        while self.queue:
            job = self.queue[0]
            sizes = self.startable(job, self.cluster.room(now), now)
            if not sizes or not self.start(job, sizes, now):
                return
            self.queue.popleft()


@dataclass(frozen=True)
class Reading:
    """What is taken for what the paper leaves open."""

    name: str
    law: type[Application] = Application
    lazy: Callable[[Cluster], Policy] = Lazy
    free_changes: bool = False
    malleable: tuple[str, ...] = ("II", "III")

    def mix(self, percent: tuple[int, int, int]) -> Mix:
        table = tuple(self.law(**vars(each)) for each in TABLE_1)
        return Mix(percent, malleable=self.malleable, free_changes=self.free_changes, table=table)


READINGS: Final = (
    Reading("as on the page"),
    Reading("speedup by a power law", law=PowerLaw),
    Reading("perfect speedup below the fewest processors", law=PerfectBelow),
    Reading("LS skips nobody", lazy=LazyInOrder),
    Reading("reconfiguration takes no time", free_changes=True),
    Reading("category I reconfigurable too", malleable=CATEGORIES),
    Reading("both", free_changes=True, malleable=CATEGORIES),
    Reading("both, and the power law", PowerLaw, free_changes=True, malleable=CATEGORIES),
)


def mean_responses(
    policy: Callable[[Cluster], Policy], mix: Mix, utilization: float, jobs: int, seed: int
) -> list[float]:
    """Return the mean response of all jobs, then of each category, in ms; 0 where it has no jobs."""
    scheduler = Scheduler(policy(Cluster(PROCESSORS)))
    arrivals = islice(mix.jobs(utilization, seed), jobs)
    responses: list[list[int]] = [[] for _ in CATEGORIES]
    for job in replay(arrivals, scheduler):
        if job.order >= WARM_UP * jobs:
            responses[job.user].append(job.end_s - job.submit_s)
    groups = [[each for group in responses for each in group], *responses]
    return [fmean(group) if group else 0.0 for group in groups]


def ratios(lazy: list[float], reconfigurable: list[float]) -> dict[str, float]:
    """LS over RS by what may be meant by "the average response time across all categories"."""
    pairs = list(zip(lazy, reconfigurable, strict=True))
    of_categories = [one / other for one, other in pairs[1:] if other]
    values = (
        pairs[0][0] / pairs[0][1],
        fmean(of_categories),
        sum(lazy[1:]) / sum(reconfigurable[1:]),
    )
    return dict(zip(MEASURES, values, strict=True))


def rows(readings: tuple[Reading, ...], jobs: int, seeds: int) -> Iterator[dict[str, Any]]:
    """Each reading at each point: LS over RS by each measure, its standard error, and the extreme seeds."""
    for reading, percent, utilization in product(readings, WORKLOADS, UTILIZATIONS):
        mix = reading.mix(percent)
        runs = []
        for seed in range(seeds):
            lazy, reconfigurable = (
                mean_responses(policy, mix, utilization, jobs, seed)
                for policy in (reading.lazy, Reconfigurable)
            )
            runs.append(ratios(lazy, reconfigurable))
        found = {}
        for measure in MEASURES:
            values = [run[measure] for run in runs]
            error = stdev(values) / sqrt(seeds) if seeds > 1 else 0.0
            found[measure] = {"value": fmean(values), "error": error, "most": max(values)}
        yield {
            "reading": reading.name,
            "workload": mix.name,
            "utilization": utilization,
            "ratios": found,
        }


def lines(found: list[dict[str, Any]]) -> Iterator[str]:
    yield "LS/RS, with standard errors, by workload and utilization; the paper: 2 in several instances"
    for measure in MEASURES:
        yield f"{measure}:"
        for name in dict.fromkeys(row["reading"] for row in found):
            cells = [
                f"{row['workload']} at {row['utilization']}: {of['value']:.2f} +-{of['error']:.2f}"
                for row in found
                if row["reading"] == name
                for of in (row["ratios"][measure],)
            ]
            yield f"  {name:44} {';  '.join(cells)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=30_000, help="in a run")
    parser.add_argument("--seeds", type=int, default=4, help="runs of each policy")
    parser.add_argument("--quick", action="store_true", help="2 readings, 2 runs of 1,500 jobs")
    parser.add_argument("--json", action="store_true", help="print figures for machines")
    given = parser.parse_args()
    if given.jobs < 100 or given.seeds < 1:
        parser.error("give 100 or more --jobs, 1 or more --seeds")
    jobs, seeds = (1_500, 2) if given.quick else (given.jobs, given.seeds)
    found = list(rows(READINGS[:4:3] if given.quick else READINGS, jobs, seeds))
    print(json.dumps(found, indent=1) if given.json else "\n".join(lines(found)))


if __name__ == "__main__":
    main()
