"""Gehring and Ramme 1996: under which reading do an EV of 34.9 and 6.4, and 9 % less waiting, come out?

    python examples/papers/ccs_readings.py [--jobs 600] [--windows 2] [--ivs] [--json]

EV is found by every combination of how requests arrive, who has priority, how much is planned ahead, what an
autonomous scheduler counts, and of which errors the mean and the largest are taken. With `--ivs`, IVS is
compared with FFDH instead: over arrivals, and on blocks of requests that are all there from the start, where
IVS packs by FFDH* as long as most are batch jobs. Log and machine are those of ccs_waiting_times.py.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Iterator
from itertools import product
from random import Random
from statistics import fmean
from typing import Any, Final, NamedTuple

from ccs_waiting_times import LOG, PAPER_EV, Window, finished, less_percent, processors
from start_estimates import EstimatingScheduler, mean_error_value

from kalends.machines.spec import machine_from
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.levels import FFDH, FFDH_STAR, makespan_s, pack
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.policies.levels.packing import Ffdh
from kalends.scheduling.policies.levels.voting import Ivs
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob
from kalends.simulation.workloads.swf_fields import SwfJob, read_header, read_jobs

MACHINE: Final = "mesh2d:32x32:4x4"
NODES: Final = 1024
WIDER: Final = 8
BACKLOG: Final = 50
"""Requests that wait at any time under steady arrivals, or about so many."""
STEADY_LOAD: Final = 0.65
"""What an autonomous scheduler can just serve here."""
WARM_UP: Final = 150
"""The requests whose errors "vary strongly" (section 4.1)."""
CLOSE: Final = 0.2
"""A reading holds where both values of EV are the paper's to this share of them."""

ARRIVALS: Final = ("log", "log x 2", "log x 4", "at once", "steady")
THRESHOLDS_S: Final = (0, 86_400)
SCHEDULERS: Final = ("units", "nodes", "verified")
BLOCK_SIZES: Final = (5, 10, 20, 50)
"""Requests of a block that is there from the start."""
BLOCKS: Final = 100
"""Blocks of each size."""
WIDTHS: Final = (1, 2, 4, 8, 16)
LOG_NODES: Final = NODES // WIDER

Errors = list[int]


class AutonomousByNodes(Ivs):
    """Knows nothing of atomic units: counts the nodes that are asked for."""

    def _nodes(self, job: Job) -> int:
        return job.nodes


class Reading(NamedTuple):
    """What is left open of a simulation."""

    arrivals: str
    priorities: bool
    threshold_s: int


class Outcome(NamedTuple):
    """Errors and waits in order of submission."""

    errors_s: Errors
    waits_s: list[int]


class Gain(NamedTuple):
    """In percent of FFDH's: above 0 is better."""

    utilization_percent: float
    wait_percent: float


def requests(reading: Reading, window: list[SwfJob]) -> list[SimulatedJob]:
    """The window's requests, as they arrive under a reading."""
    load = {"log x 2": 2.0, "log x 4": 4.0}.get(reading.arrivals, 1.0)
    jobs = Window(window, MACHINE, WIDER, load, reading.threshold_s, "queue:1").simulated()
    work = 0
    for number, job in enumerate(jobs):
        if not reading.priorities:
            job.priority = 0
        if reading.arrivals == "at once":
            job.submit_s = 0
        elif reading.arrivals == "steady":
            if number >= BACKLOG:
                work += jobs[number - BACKLOG].nodes * jobs[number - BACKLOG].run_s
            job.submit_s = round(work / (NODES * STEADY_LOAD))
    return jobs


def outcome(reading: Reading, window: list[SwfJob], scheduler: str) -> Outcome:
    """IVS on one window."""
    policy_class = AutonomousByNodes if scheduler == "nodes" else Ivs
    policy = policy_class(
        MappedCluster(machine_from(MACHINE)),
        threshold_s=reading.threshold_s,
        verified=scheduler == "verified",
    )
    estimating = EstimatingScheduler(policy)
    ended, _ = finished(estimating, requests(reading, window))
    told = estimating.at_submission
    return Outcome(
        [job.start_s - told[job.order] for job in ended],
        [job.start_s - job.submit_s for job in ended],
    )


def ev_by_largest(errors_s: Errors, largest_s: int) -> float:
    """EV with another E_max."""
    return 100 * fmean(map(abs, errors_s)) / largest_s if largest_s else 0.0


def relative_to_wait(one: Outcome) -> float:
    """The errors in percent of all that was waited, or of what was told where that is more."""
    whole = sum(max(wait_s, abs(error_s)) for error_s, wait_s in zip(*one, strict=True))
    return 100 * sum(map(abs, one.errors_s)) / whole if whole else 0.0


def of_those(one: Outcome, chosen: Callable[[int, int], bool]) -> Errors:
    return [error for error, wait in zip(*one, strict=True) if chosen(error, wait)] or [0]


def measured(autonomous: Outcome, verified: Outcome) -> dict[str, tuple[float, float]]:
    """EV of both schedulers, by what it may be the mean of and divided by."""
    both = autonomous, verified
    largest_s = max(abs(error_s) for one in both for error_s in one.errors_s)
    measures: dict[str, Callable[[Outcome], float]] = {
        "as printed": lambda one: mean_error_value(one.errors_s),
        f"after the first {WARM_UP}": lambda one: mean_error_value(one.errors_s[WARM_UP:]),
        "of those who wait": lambda one: mean_error_value(of_those(one, lambda _, wait: wait > 0)),
        "of wrong estimates": lambda one: mean_error_value(
            of_those(one, lambda error, _: error != 0)
        ),
        "of late starts": lambda one: mean_error_value(of_those(one, lambda error, _: error > 0)),
        "one E_max for both": lambda one: ev_by_largest(one.errors_s, largest_s),
        "of the wait": relative_to_wait,
    }
    return {name: (measure(autonomous), measure(verified)) for name, measure in measures.items()}


def ev_rows(windows: list[list[SwfJob]]) -> Iterator[dict[str, Any]]:
    """Every reading, with the mean EV over the windows."""
    for choice in product(ARRIVALS, (True, False), THRESHOLDS_S):
        reading = Reading(*choice)
        runs = [{name: outcome(reading, one, name) for name in SCHEDULERS} for one in windows]
        for counts in SCHEDULERS[:2]:
            found = [measured(run[counts], run["verified"]) for run in runs]
            for measure in found[0]:
                autonomous, verified = (
                    fmean(each[measure][mode] for each in found) for mode in (0, 1)
                )
                yield {
                    **reading._asdict(),
                    "counts": counts,
                    "measure": measure,
                    "autonomous": autonomous,
                    "verified": verified,
                    "less_percent": less_percent(verified, autonomous),
                }


def holds(row: dict[str, Any]) -> bool:
    """Whether both values are about the paper's."""
    return all(abs(row[mode] / paper - 1) <= CLOSE for mode, paper in PAPER_EV.items())


def ev_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield f"{len(rows)} readings of EV; the paper has {PAPER_EV['autonomous']} and {PAPER_EV['verified']}."
    for measure in dict.fromkeys(row["measure"] for row in rows):
        mine = [row for row in rows if row["measure"] == measure]
        yield f"{measure}: autonomous and verified, threshold 0; threshold of a day"
        for arrivals, counts, priorities in product(ARRIVALS, SCHEDULERS[:2], (True, False)):
            cells = [
                f"{row['autonomous']:5.1f} {row['verified']:5.1f}"
                for row in mine
                if (row["arrivals"], row["counts"], row["priorities"])
                == (arrivals, counts, priorities)
            ]
            told = "priorities" if priorities else "all alike"
            yield f"  {arrivals:8} {counts:6} {told:10}  {';  '.join(cells)}"
    held = [row for row in rows if holds(row)]
    yield f"Both values within {CLOSE:.0%} of the paper's: {len(held)} of {len(rows)} readings"
    for row in held:
        yield f"  {row}"


def compared(reading: Reading, window: list[SwfJob], *, mapped: bool) -> Gain:
    """What IVS gains over FFDH on a window."""
    runs = []
    for policy_class in (Ffdh, Ivs):
        cluster = MappedCluster(machine_from(MACHINE)) if mapped else Cluster(NODES)
        _, measures = finished(Scheduler(policy_class(cluster)), requests(reading, window))
        runs.append(measures)
    plain, ivs = runs
    return Gain(
        100 * (ivs["utilization"] / plain["utilization"] - 1),
        less_percent(ivs["mean_wait_s"], plain["mean_wait_s"]),
    )


def packed(block: list[tuple[int, int]], nodes: int) -> Gain:
    """What FFDH* gains over FFDH on one block of nodes and times, on an empty machine, by packing alone."""
    plain, star = (pack(rule, block, nodes) for rule in (FFDH, FFDH_STAR))
    waits = [sum(each.start_s for each in placements) for placements in (plain, star)]
    return Gain(
        100 * (makespan_s(block, plain) / makespan_s(block, star) - 1),
        less_percent(waits[1], waits[0]),
    )


def like_figure_4(size: int, draw: Random) -> list[tuple[int, int]]:
    """A "wild mixture" within the limits of Fig. 4: 1 to 16 sixteenths of a machine, 5 to 50 time units."""
    return [(draw.choice(WIDTHS), draw.randint(5, 50)) for _ in range(size)]


def ivs_rows(log: list[SwfJob], windows: list[list[SwfJob]]) -> Iterator[dict[str, Any]]:
    """IVS against FFDH over arrivals, and FFDH* against it on blocks that are all there from the start."""
    for mapped, arrivals in product((True, False), ARRIVALS):
        gains = [compared(Reading(arrivals, True, 0), one, mapped=mapped) for one in windows]
        yield _row(f"{arrivals}, {'mesh' if mapped else 'nodes counted'}", len(windows[0]), gains)
    requested = [(processors(each), each.run_s or 0) for each in log]
    for size in BLOCK_SIZES:
        firsts = range(0, len(log) - size, len(log) // BLOCKS)
        blocks = [requested[first : first + size] for first in firsts]
        yield _row("one block, the log's", size, [packed(each, LOG_NODES) for each in blocks])
    for size in BLOCK_SIZES:
        draw = Random(size)
        blocks = [like_figure_4(size, draw) for _ in range(BLOCKS)]
        yield _row("one block, as Fig. 4", size, [packed(each, WIDTHS[-1]) for each in blocks])


def _row(arrivals: str, size: int, gains: list[Gain]) -> dict[str, Any]:
    used = [each.utilization_percent for each in gains]
    return {
        "arrivals": arrivals,
        "requests": size,
        "more_utilization_percent": fmean(used),
        "most_utilization_percent": max(used),
        "less_wait_percent": fmean(each.wait_percent for each in gains),
    }


def ivs_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield f"{len(rows)} readings of IVS against FFDH."
    yield "The paper: up to 30 % more utilization, 9 % less waiting."
    yield f"{'requests arrive':25}{'requests':>9}{'more utilization':>18}{'at most':>10}{'less waiting':>14}"
    for row in rows:
        yield (
            f"{row['arrivals']:25}{row['requests']:9}{row['more_utilization_percent']:16.1f} %"
            f"{row['most_utilization_percent']:8.0f} %{row['less_wait_percent']:12.1f} %"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=600, help="in each window")
    parser.add_argument("--windows", type=int, default=2, help="spread evenly over the log")
    parser.add_argument("--quick", action="store_true", help="200 jobs in one window")
    parser.add_argument("--ivs", action="store_true", help="IVS against FFDH, not EV")
    parser.add_argument("--json", action="store_true", help="print figures for machines")
    given = parser.parse_args()
    if given.quick:
        given.jobs, given.windows = 200, 1
    with gzip.open(LOG, "rt") as lines:
        size = int(read_header(lines)["MaxProcs"])
    with gzip.open(LOG, "rt") as lines:
        log = [each for each in read_jobs(lines) if each.run_s and 0 < processors(each) <= size]
    if given.jobs <= WARM_UP or given.windows < 1 or given.jobs * given.windows > len(log):
        parser.error(f"give over {WARM_UP} jobs, and windows that the log's {len(log)} jobs fill")
    step = len(log) // given.windows
    windows = [log[number * step : number * step + given.jobs] for number in range(given.windows)]
    rows = list(ivs_rows(log, windows) if given.ivs else ev_rows(windows))
    told = ivs_lines(rows) if given.ivs else ev_lines(rows)
    print(json.dumps(rows, indent=1) if given.json else "\n".join(told))


if __name__ == "__main__":
    main()
