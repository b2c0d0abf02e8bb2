"""Jones and Pang 2003, section 6: Beosim's policies beside each other, over the load.

    python examples/papers/beosim_policies.py [--jobs 10000] [--seeds 1] [--quick] [--json] [--plot FILE]

One cluster of 100 nodes, run times exp(7600) known beforehand, unif(1, 100) nodes, mean times between
arrivals from 30,000 down to 3,000 seconds, and a last column where all jobs are there from the start. For
each policy: utilization, mean wait in the queue, mean queue depth, all until the last job has ended, as
Beosim counts them (section 5.1: depth is the sum of waits / simTime). Below, the paper's conclusions, each
with what is found here. `--workload` takes those of Figures 6 to 13 instead.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

from oracles import even, saturated_utilization

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.registry import policy_maker
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay

PLAIN = ["fcfs", "sjf", "smjf", "swjf", "ljf", "bjf"]
SCAN = ["fcfs-scan", "sjf-scan", "swjf-scan", "ljf-scan", "bjf-scan"]
SLACK = ["easy-slack:0", "easy-slack:5", "easy-slack:20", "easy-slack:100"]
HOPS = ["no-starvation:0", "no-starvation:5", "no-starvation:50", "no-starvation:500"]
POLICIES = [*PLAIN, *SCAN, "easy", *SLACK, *HOPS]

MEASURES = ["utilization", "wait_s", "depth"]


class Workload(NamedTuple):
    """Nodes even from `low` to `high`; exponential run times and times between arrivals with these means."""

    nodes: int
    low: int
    high: int
    run_s: float
    between_s: float


def workloads(name: str, quick: bool) -> dict[str, Workload]:
    """What varies along one figure's axis. The cluster of Figures 6 to 13 is not told: 64 nodes here."""
    if name == "section-6":
        points = [20_000, 5_000, 3_000, 0] if quick else [30_000, 20_000, 15_000, 10_000, 7_500, 5_000, 4_000,
                                                          3_000, 0]  # fmt: skip
        return {str(x): Workload(100, 1, 100, 7600, x) for x in points}
    steps = [16, 64] if quick else [8, 16, 24, 32, 40, 48, 56, 64]
    if name == "figure-6":
        return {str(x): Workload(64, 1, x, 170, 100) for x in steps}
    if name == "figure-8":
        return {str(x): Workload(64, x - 5, x, 170, 100) for x in steps}
    if name == "figure-10":
        return {
            str(25 * x): Workload(64, 1, 64, 170, 25 * x)
            for x in ([2, 8] if quick else range(1, 13))
        }
    return {str(x): Workload(64, x, 33, 170, 50) for x in ([1, 33] if quick else range(1, 34, 4))}


def drawn(workload: Workload, jobs: int, seed: int) -> Iterator[SimulatedJob]:
    """The same draws for every load and policy: what differs is only what is compared."""
    draw = Random(seed)
    at = 0.0
    for number in range(jobs):
        at += draw.expovariate(1.0) * workload.between_s
        run_s = max(round(draw.expovariate(1.0) * workload.run_s), 1)
        nodes = workload.low + int(draw.random() * (workload.high - workload.low + 1))
        yield SimulatedJob(id=number, submit_s=int(at), nodes=nodes, requested_s=run_s, run_s=run_s)


def measured(task: tuple[str, Workload, int, int]) -> dict[str, float]:
    policy, workload, jobs, seed = task
    waited_s = worked_s = end_s = 0
    scheduler = Scheduler(policy_maker(policy)(Cluster(workload.nodes)))
    for job in replay(drawn(workload, jobs, seed), scheduler):
        waited_s += job.start_s - job.submit_s
        worked_s += job.run_s * job.nodes
        end_s = max(end_s, job.end_s)
    return {
        "utilization": worked_s / (workload.nodes * end_s),
        "wait_s": waited_s / jobs,
        "depth": waited_s / end_s,
    }


def figures(name: str, jobs: int, seeds: int, quick: bool) -> dict[str, Any]:
    points = workloads(name, quick)
    tasks = [
        (policy, workload, jobs, seed)
        for workload in points.values()
        for policy in POLICIES
        for seed in range(seeds)
    ]
    with get_context("spawn").Pool() as pool:
        results = iter(pool.map(measured, tasks, chunksize=4))
    table: dict[str, Any] = {}
    for at in points:
        table[at] = {}
        for policy in POLICIES:
            runs = [next(results) for _ in range(seeds)]
            table[at][policy] = {
                measure: fmean(run[measure] for run in runs) for measure in MEASURES
            }
    found: dict[str, Any] = {"workload": name, "jobs": jobs, "seeds": seeds, "points": table}
    if name == "section-6":
        found["conclusions"] = conclusions(table)
    return found


def conclusions(table: dict[str, Any]) -> dict[str, Any]:
    """Each sentence of the paper as counts: at how many points of load it holds."""
    heavy = [at for at in table if float(at) < 4_000]
    pairs = [(scan.removesuffix("-scan"), scan) for scan in SCAN]
    better = {
        measure: [
            sum(_better(table[at], scan, plain, measure) for at in table for plain, scan in pairs),
            len(table) * len(pairs),
        ]
        for measure in MEASURES
    }
    first_test = [*PLAIN, *SCAN]
    return {
        "scan_at_least_as_good": better,
        "best": {
            at: {measure: _best(table[at], first_test, measure) for measure in MEASURES}
            for at in table
        },
        "fcfs_best_in": sum(
            all(
                not _better(table[at], other, "fcfs", measure, strictly=True)
                for other in first_test
            )
            for at in heavy
            for measure in MEASURES
        ),
        "easy_over_fcfs_utilization": {
            at: table[at]["easy"]["utilization"] / table[at]["fcfs"]["utilization"] - 1
            for at in table
        },
        "fcfs_saturates_at": float(saturated_utilization([100], [even(1, 100)])),
        "slack_0_is_easy": all(row["easy-slack:0"] == row["easy"] for row in table.values()),
        "no_hops_is_fcfs": all(row["no-starvation:0"] == row["fcfs"] for row in table.values()),
    }


def _better(
    row: dict[str, Any], one: str, other: str, measure: str, *, strictly: bool = False
) -> bool:
    difference = row[one][measure] - row[other][measure]
    if measure != "utilization":
        difference = -difference
    return difference > 0 if strictly else difference >= 0


def _best(row: dict[str, Any], policies: list[str], measure: str) -> str:
    values = {policy: row[policy][measure] for policy in policies}
    least, most = min(values.values()), max(values.values())
    if most - least <= 1e-3 * most:
        return "all alike"
    return (
        max(values, key=values.__getitem__)
        if measure == "utilization"
        else min(values, key=values.__getitem__)
    )


def lines(found: dict[str, Any]) -> list[str]:
    table = found["points"]
    told = [f"{found['workload']}: {found['jobs']:,} jobs, mean of {found['seeds']} seeds"]
    for measure, text in zip(
        MEASURES, ["utilization, %", "mean wait, s", "queue depth"], strict=True
    ):
        scale, digits = (100, 1) if measure == "utilization" else (1, 0)
        told += ["", f"{text:<18}" + "".join(f"{at:>11}" for at in table)]
        told += [
            f"{policy:<18}"
            + "".join(f"{table[at][policy][measure] * scale:>11,.{digits}f}" for at in table)
            for policy in POLICIES
        ]
    if "conclusions" not in found:
        return told
    drawn_from = found["conclusions"]
    counts = drawn_from["scan_at_least_as_good"]
    told += [
        "",
        "The scan version is at least as good (paper: in all cases), of all pairs and loads:",
    ]
    told += [f"  {measure:<12} {held} of {of}" for measure, (held, of) in counts.items()]
    told += ["Best of the first test (paper: LJF_SCAN in utilization; FCFS in nothing):"]
    told += [
        f"  {_arrivals(at)}: {best['utilization']} in utilization, {best['wait_s']} in wait, "
        f"{best['depth']} in depth"
        for at, best in drawn_from["best"].items()
    ]
    told += [f"  FCFS is best {drawn_from['fcfs_best_in']} times"]
    told += ["EASY's utilization over FCFS's (paper: almost 25 % better):"]
    told += [
        f"  {_arrivals(at)}: {gain:+.1%}, {_points(table[at]):+.1f} points"
        for at, gain in drawn_from["easy_over_fcfs_utilization"].items()
    ]
    told.append(
        f"FCFS cannot get more out of 100 nodes than {drawn_from['fcfs_saturates_at']:.1%}."
    )
    return told


def _points(row: dict[str, Any]) -> float:
    return 100 * float(row["easy"]["utilization"] - row["fcfs"]["utilization"])


def _arrivals(at: str) -> str:
    return f"arrivals {at} s apart" if at != "0" else "all there from the start"


def plot(found: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    table = found["points"]
    figure, axes = pyplot.subplots(3, 1, figsize=(9, 15), layout="constrained")
    for axis, measure in zip(axes, MEASURES, strict=True):
        for policy in [*PLAIN, *SCAN, "easy"]:
            style = ":" if policy in PLAIN else "-"
            values = [table[at][policy][measure] for at in table]
            axis.plot(list(table), values, style, marker=".", label=policy)
        axis.set_ylabel(measure)
        if measure != "utilization":
            axis.set_yscale("symlog")
        axis.grid(alpha=0.3)
    axes[0].legend(ncols=3, fontsize="small")
    axes[-1].set_xlabel(
        "mean seconds between arrivals" if found["workload"] == "section-6" else found["workload"]
    )
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=1, help="runs to average")
    parser.add_argument(
        "--workload",
        default="section-6",
        choices=["section-6", "figure-6", "figure-8", "figure-10", "figure-12"],
    )
    parser.add_argument("--quick", action="store_true", help="fewer jobs and loads, one seed")
    parser.add_argument("--json", action="store_true", help="print figures for machines")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw the curves (needs matplotlib)"
    )
    arguments = parser.parse_args()
    jobs, seeds = (1_000, 1) if arguments.quick else (arguments.jobs, arguments.seeds)
    if jobs < 1 or seeds < 1:
        parser.error("--jobs and --seeds must be 1 or more")
    found = figures(arguments.workload, jobs, seeds, arguments.quick)
    if arguments.plot:
        plot(found, arguments.plot)
    print(json.dumps(found, indent=1) if arguments.json else "\n".join(lines(found)))


if __name__ == "__main__":
    main()
