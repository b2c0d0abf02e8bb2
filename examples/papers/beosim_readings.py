"""Jones and Pang 2003, section 6: under which reading has LJF_SCAN the best utilization of all?

    python examples/papers/beosim_readings.py [--jobs 10000] [--seeds 2] [--quick] [--json]

The paper says so, and by its plain words BJF_SCAN has it (beosim_policies.py). Every combination of what
the words leave open is run here: what L ranks by (run time, or work), how a scan goes on (in order of rank,
in order of submission as section 6 has it, or one job for each event), what "job size" is (a run time, or
work that is divided by the nodes), what "variable" arrivals are (exponential or even times between), and
until when is measured (the last end, or the last arrival). Where the size is work, jobs come as much faster
as offers the same. Plain policies are left out: their scan versions are at least as good everywhere.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import product
from random import Random
from statistics import fmean
from typing import Any, Final, NamedTuple

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.indexed_queue import IndexedQueue
from kalends.scheduling.job import Job
from kalends.scheduling.policies.ordered.ranked import (
    BySubmission,
    FewestNodesFirst,
    LeastWorkFirst,
    LongestFirst,
    MostNodesFirst,
    ShortestFirst,
)
from kalends.scheduling.policies.ordered.scan import Scan
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay

NODES: Final = 100
MEAN_SIZE_S: Final = 7600
BETWEEN_S: Final = (30_000, 15_000, 7_500, 6_000, 5_000, 4_000, 3_000)
SAME: Final = 1e-3
"""Utilizations that lie this close together, as a share of the machine, look alike on any picture."""

SCANS: Final = ("rank", "submission", "one an event")
LARGE: Final = ("run time", "work")
SIZES: Final = ("run time", "work")
ARRIVALS: Final = ("exponential", "even")
UNTIL: Final = ("last end", "last arrival")
POLICIES: Final = ("fcfs-scan", "sjf-scan", "swjf-scan", "smjf", "ljf-scan", "bjf-scan")


class Reading(NamedTuple):
    """What the paper's words are taken to mean."""

    scan: str
    large: str
    size: str
    arrivals: str


class MostWorkFirst:
    """The largest product of nodes and requested time first."""

    def rank(self, job: Job) -> int:
        return -job.nodes * job.requested_s


class ScanBySubmission(Scan):
    """The first by rank; if it cannot run, whoever can in order of submission ("on a FCFS basis")."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.submissions = IndexedQueue()

    def submitted(self, job: Job, now: int) -> None:
        super().submitted(job, now)
        self.submissions.add(job)

    def schedule(self, now: int) -> None:
        while (head := self.line.head()) is not None and self.start(head, now):
            self.line.remove(head)
            self.submissions.remove(head)
        leeway = self.cluster.leeway(now)
        started = []
        for job in self.submissions.startable(leeway, now):
            if self.start(job, now):
                leeway.take(job.granted, job.until_s)
                started.append(job)
        for job in started:
            self.line.remove(job)
            self.submissions.remove(job)


class ScanForOne(Scan):
    """The first by rank that fits, and only one for each arrival or end."""

    def schedule(self, now: int) -> None:
        found = next(self.line.startable(self.cluster.leeway(now), now), None)
        if found is not None and self.start(found, now):
            self.line.remove(found)


SCAN_CLASSES: Final[dict[str, type[Scan]]] = {
    "rank": Scan,
    "submission": ScanBySubmission,
    "one an event": ScanForOne,
}


def policy_of(name: str, reading: Reading, cluster: Cluster) -> Scan:
    """A policy of the paper as the reading has it."""
    ranks: dict[str, type] = {
        "fcfs-scan": BySubmission,
        "sjf-scan": ShortestFirst,
        "swjf-scan": LeastWorkFirst,
        "smjf": FewestNodesFirst,
        "ljf-scan": LongestFirst if reading.large == "run time" else MostWorkFirst,
        "bjf-scan": MostNodesFirst,
    }
    made: type[Scan] = type(name, (ranks[name], SCAN_CLASSES[reading.scan]), {})
    return made(cluster)


def drawn(reading: Reading, between_s: float, jobs: int, seed: int) -> Iterator[SimulatedJob]:
    """The same draws for every load, policy and reading."""
    draw = Random(seed)
    if reading.size == "work":
        between_s /= (1 + NODES) / 2
    at_s = 0.0
    for number in range(jobs):
        chance = draw.expovariate(1.0), 2 * draw.random()
        at_s += between_s * chance[ARRIVALS.index(reading.arrivals)]
        size_s = draw.expovariate(1 / MEAN_SIZE_S)
        nodes = draw.randint(1, NODES)
        run_s = max(round(size_s / nodes if reading.size == "work" else size_s), 1)
        yield SimulatedJob(number, int(at_s), nodes, run_s, run_s=run_s)


def utilizations(
    reading: Reading, name: str, between_s: float, jobs: int, seed: int
) -> dict[str, float]:
    """The share of the machine that works, until the last end and until the last arrival."""
    last_s, spans = 0, []
    scheduler = Scheduler(policy_of(name, reading, Cluster(NODES)))
    for job in replay(drawn(reading, between_s, jobs, seed), scheduler):
        last_s = max(last_s, job.submit_s)
        spans.append((job.start_s, job.end_s, job.nodes))
    whole_s = max(end_s for _, end_s, _ in spans)
    return {
        until: sum(nodes * max(min(end_s, at_s) - start_s, 0) for start_s, end_s, nodes in spans)
        / (NODES * at_s)
        for until, at_s in zip(UNTIL, (whole_s, last_s), strict=True)
    }


def found(reading: Reading, loads: tuple[int, ...], jobs: int, seeds: int) -> list[dict[str, Any]]:
    """For both measures: at each load the best policy, and how far LJF_SCAN is ahead of the best other."""
    rows: list[dict[str, Any]] = [
        {**reading._asdict(), "until": until, "at": {}} for until in UNTIL
    ]
    for between_s in loads:
        runs = {
            name: [utilizations(reading, name, between_s, jobs, seed) for seed in range(seeds)]
            for name in POLICIES
        }
        for row in rows:
            means = {name: fmean(run[row["until"]] for run in runs[name]) for name in POLICIES}
            mine = means.pop("ljf-scan")
            best = max(means, key=means.__getitem__)
            row["at"][between_s] = {
                "ljf_scan": mine,
                "best_other": best,
                "ahead": mine - means[best],
            }
    return rows


def ahead_somewhere(row: dict[str, Any]) -> bool:
    """Whether LJF_SCAN is visibly best at some load, and nowhere visibly beaten."""
    leads = [each["ahead"] for each in row["at"].values()]
    return max(leads) > SAME and min(leads) >= -SAME


def lines(rows: list[dict[str, Any]], jobs: int, seeds: int) -> Iterator[str]:
    yield f"{len(rows)} readings, {jobs:,} jobs, mean of {seeds} seeds. LJF_SCAN's utilization less the best"
    yield "other's, in points, and who that is; by mean seconds between arrivals."
    yield f"{'L is':9}{'scan by':14}{'size is':9}{'arrivals':12}{'until':13}" + "".join(
        f"{at:>18,}" for at in rows[0]["at"]
    )
    for row in rows:
        cells = "".join(
            f"{each['ahead'] * 100:>+8.2f} {each['best_other']:<9}" for each in row["at"].values()
        )
        yield (
            f"{row['large']:9}{row['scan']:14}{row['size']:9}{row['arrivals']:12}{row['until']:13}"
            f"{cells}"
        )
    if len(rows[0]["at"]) < len(BETWEEN_S):
        yield "Too few loads and jobs for a verdict: leads of some tenths of a point are chance here."
        return
    held = sum(map(ahead_somewhere, rows))
    yield f"LJF_SCAN is best at some load and beaten at none under {held} of {len(rows)} readings."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=2, help="runs to average")
    parser.add_argument("--quick", action="store_true", help="500 jobs, two loads, one seed")
    parser.add_argument("--json", action="store_true", help="print figures for machines")
    given = parser.parse_args()
    if min(given.jobs, given.seeds) < 1:
        parser.error("--jobs and --seeds must be 1 or more")
    jobs, seeds = (500, 1) if given.quick else (given.jobs, given.seeds)
    loads = (15_000, 3_000) if given.quick else BETWEEN_S
    rows = [
        row
        for choice in product(SCANS, LARGE, SIZES, ARRIVALS)
        for row in found(Reading(*choice), loads, jobs, seeds)
    ]
    print(json.dumps(rows, indent=1) if given.json else "\n".join(lines(rows, jobs, seeds)))


if __name__ == "__main__":
    main()
