"""Jones and Pang 2003, section 2: Beosim held against the M/M/m queue, and kalends beside both.

    python examples/papers/beosim_mmm.py [--jobs 100000] [--seed 2003] [--quick] [--json]

For each row of the paper's table: the formulas, what the paper prints for them and for Beosim, and what
kalends simulates, with a 99 % interval by batch means. Below: one queue before four clusters as one pool,
with jobs wider than a cluster (section 2.2), and how far co-allocation lowers the most that first come,
first served gets out of a grid (Bucur and Epema 2003, in section 3.5.1). Times in the paper's unit.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from heapq import merge
from random import Random
from statistics import fmean
from typing import Any

from oracles import even, multi_server, saturated_utilization, total
from saturation import all_at_once, utilization_while_waiting

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.grid_spec import grid_from
from kalends.scheduling.policies.ordered.fcfs import Fcfs
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.co_allocation import drawn
from kalends.simulation.confidence import estimate
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay

TICKS = 1000
"""Simulated times are whole: so many to the paper's unit."""

BATCHES = 20

ROWS = [
    # lambda, mu as printed, the mean service time that it stands for, m, then W T U by the formulas
    # and W T U by Beosim, as the paper prints them.
    (0.004, ".0067", 150, 1, (225.00, 375.00, 0.60), (226.45, 376.02, 0.60)),
    (0.004, ".0067", 150, 2, (14.84, 164.84, 0.30), (14.99, 164.57, 0.30)),
    (0.004, ".0067", 150, 3, (1.54, 151.54, 0.20), (1.64, 151.21, 0.20)),
    (0.005, ".0059", 170, 1, (963.3, 1133.3, 0.85), (1010.5, 1180.1, 0.852)),
    (0.005, ".0059", 170, 2, (37.5, 207.5, 0.425), (38.14, 207.7, 0.426)),
    (0.005, ".0059", 170, 3, (4.80, 174.8, 0.283), (4.98, 174.6, 0.284)),
    (0.005, ".0059", 170, 4, (0.637, 170.64, 0.213), (0.657, 170.24, 0.213)),
]


def poisson(
    arrival_rate: float, mean_service: float, jobs: int, nodes: int, draw: Random
) -> Iterator[SimulatedJob]:
    at = 0.0
    for number in range(jobs):
        at += draw.expovariate(arrival_rate)
        run = max(round(draw.expovariate(1 / mean_service) * TICKS), 1)
        yield SimulatedJob(
            id=number, submit_s=round(at * TICKS), nodes=nodes, requested_s=run, run_s=run
        )


def interval(batches: list[float]) -> dict[str, float]:
    """The mean of batches, and how far it may be off: nearly independent, they are taken as such."""
    found = estimate(batches, 0.99)
    assert found.half_width is not None
    return {"mean": found.mean, "off": found.half_width}


def simulated(jobs: list[SimulatedJob], cluster: Cluster) -> dict[str, dict[str, float]]:
    """W, T and U of the jobs after the first tenth, which fills the empty system."""
    for _ in replay(jobs, Scheduler(Fcfs(cluster))):
        pass
    warm = len(jobs) // 10
    each = (len(jobs) - warm - 1) // BATCHES
    wait, response, use = [], [], []
    for first in range(warm, warm + BATCHES * each, each):
        batch = jobs[first : first + each]
        span = jobs[first + each].submit_s - batch[0].submit_s
        wait.append(fmean(job.start_s - job.submit_s for job in batch) / TICKS)
        response.append(fmean(job.end_s - job.submit_s for job in batch) / TICKS)
        use.append(sum(job.run_s * job.nodes for job in batch) / (span * cluster.nodes))
    return {"W": interval(wait), "T": interval(response), "U": interval(use)}


def row(index: int, jobs: int, seed: int) -> dict[str, Any]:
    rate, mu, mean_service, servers, printed, beosim = ROWS[index]
    exact = multi_server(rate, 1 / mean_service, servers)
    as_printed = multi_server(rate, float(mu), servers)
    log = list(poisson(rate, mean_service, jobs, 1, Random(f"{seed} {index}")))
    return {
        "lambda": rate, "mu": mu, "m": servers, "mean_service": mean_service,
        "formula": _wtu(exact), "formula_with_mu_as_printed": _wtu(as_printed),
        "paper_formula": dict(zip("WTU", printed, strict=True)),
        "paper_beosim": dict(zip("WTU", beosim, strict=True)),
        "kalends": simulated(log, Cluster(servers)),
    }  # fmt: skip


def _wtu(queue: Any) -> dict[str, float]:
    return {"W": queue.mean_wait, "T": queue.mean_response, "U": queue.utilization}


def pool(jobs: int, seed: int) -> dict[str, Any]:
    """Section 2.2: four clusters of 8 with a Poisson stream each, every job takes 16 nodes anywhere."""
    streams = [
        poisson(0.005 / 4, 170, jobs // 4, 16, Random(f"{seed} stream {index}"))
        for index in range(4)
    ]
    log = list(merge(*streams, key=lambda job: job.submit_s))
    return {
        "formula": _wtu(multi_server(0.005, 1 / 170, 2)),
        "kalends": simulated(log, grid_from("grid:8+8+8+8")),
    }


def co_allocation(jobs: int, seed: int) -> dict[str, Any]:
    """4 clusters of 32, jobs with four components of 1 to 16 nodes each, in order, never ending."""

    def measured(kind: str, cluster: Cluster) -> float:
        log = drawn(
            all_at_once(jobs, 1000 * TICKS, Random(f"{seed} run")), kind, [(1, 16)] * 4,
            Random(f"{seed} size"),
        )  # fmt: skip
        return utilization_while_waiting(log, Fcfs(cluster))

    sizes, text = [even(1, 16)] * 4, "grid:32+32+32+32"
    return {
        "ordered": measured("ordered", grid_from(text)),
        "ordered_exact": float(saturated_utilization([32] * 4, sizes)),
        "unordered_first_fit": measured("unordered", grid_from(text, fit="first")),
        "unordered_worst_fit": measured("unordered", grid_from(text)),
        "total": measured("total", grid_from(text)),
        "one_cluster_exact": float(saturated_utilization([128], [total(sizes)])),
    }


def figures(jobs: int, seed: int) -> dict[str, Any]:
    rows = [row(index, jobs, seed) for index in range(len(ROWS))]
    found = {"jobs": jobs, "rows": rows, "pool": pool(jobs, seed)}
    checks = [(each, key) for each in [*rows, found["pool"]] for key in "WTU"]
    within = sum(
        abs(each["kalends"][key]["mean"] - each["formula"][key]) <= each["kalends"][key]["off"]
        for each, key in checks
    )
    return found | {
        "within": within, "compared": len(checks), "co_allocation": co_allocation(jobs // 2, seed)
    }  # fmt: skip


def lines(found: dict[str, Any]) -> list[str]:
    told = [
        f"M/M/m, {found['jobs']:,} jobs: the paper's formulas, our formulas, Beosim, kalends (99 %)",
        "",
        "lambda  mu     m  what     paper   formula    Beosim   kalends",
    ]
    for each in found["rows"]:
        start = f"{each['lambda']:<6}  {each['mu']}  {each['m']}"
        for key in "WTU":
            ours = each["kalends"][key]
            digits = 4 if key == "U" else 2
            told.append(
                f"{start:<16}  {key}  {each['paper_formula'][key]:>9g}"
                f"  {each['formula'][key]:>8.{digits}f}  {each['paper_beosim'][key]:>8g}"
                f"  {ours['mean']:>8.{digits}f} +- {ours['off']:.{digits}f}"
            )
            start = ""
    told += ["", "Four clusters of 8 as one pool, jobs of 16 nodes: M/M/2 again"]
    told += [
        f"                  {key}             {found['pool']['formula'][key]:>8.4f}"
        f"            {found['pool']['kalends'][key]['mean']:>8.4f}"
        f" +- {found['pool']['kalends'][key]['off']:.4f}"
        for key in "WTU"
    ]
    co = found["co_allocation"]
    return [
        *told,
        "",
        f"{found['within']} of {found['compared']} formulas lie within our intervals.",
        "",
        "Most utilization with FCFS: 4 clusters of 32, four components of 1 to 16 nodes",
        f"  ordered                {co['ordered']:.4f}   (exact: {co['ordered_exact']:.4f})",
        f"  unordered, first fit   {co['unordered_first_fit']:.4f}",
        f"  unordered, worst fit   {co['unordered_worst_fit']:.4f}",
        f"  total                  {co['total']:.4f}   (one cluster of 128, exact: "
        f"{co['one_cluster_exact']:.4f})",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=100_000, help="simulated for each row")
    parser.add_argument("--seed", type=int, default=2003)
    parser.add_argument("--quick", action="store_true", help="6,000 jobs for each row")
    parser.add_argument("--json", action="store_true", help="print figures for machines")
    arguments = parser.parse_args()
    jobs = 6_000 if arguments.quick else arguments.jobs
    if jobs < 1_000:
        parser.error("--jobs must be 1000 or more")
    found = figures(jobs, arguments.seed)
    print(json.dumps(found, indent=1) if arguments.json else "\n".join(lines(found)))


if __name__ == "__main__":
    main()
