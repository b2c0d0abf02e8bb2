"""Another simulator in the same run, on the same log: what both cost, what both made, what is wrong in it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from benchmarks.other_simulators import accasim_runner
from benchmarks.other_simulators.normal_form import write_normal_form
from benchmarks.simulating.ours import LogGiven, simulate
from benchmarks.simulating.processes import PROGRAM, Child
from kalends.simulation.workloads.swf import open_log

_TAU_S: Final = 10


def accasim(
    child: Child, folder: Path, given: LogGiven, policy: str, environment: Path, python: str
) -> list[dict[str, Any]]:
    """A row for kalends and one for AccaSim; that one has only `failed` if it could not be run."""
    normal = LogGiven(folder / "normal.swf", given.nodes)
    write_normal_form(given.path, normal.path, nodes=given.nodes)
    out = folder / "ours.csv"
    cost, _ = child.run(simulate(normal, policy, "--out", out))
    rows = [_row("kalends", given, policy, cost.cpu_s, cost.peak_mb, _judged(normal, out, policy))]
    out.unlink()
    theirs = folder / "theirs.csv"
    try:
        ran = accasim_runner.run_accasim(
            normal.path, theirs, nodes=given.nodes, policy=policy,
            environment=environment, python=python,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError, RuntimeError, ValueError) as error:
        print(f"AccaSim could not be run: {error}", file=sys.stderr)
        name = f"AccaSim {accasim_runner.VERSION}"
        return [*rows, {"simulator": name, "policy": policy, "failed": str(error)}]
    judged = _judged(normal, theirs, policy)
    return [*rows, _row(ran.simulator, given, policy, ran.cpu_s, ran.peak_mb, judged)]


def _row(
    simulator: str,
    given: LogGiven,
    policy: str,
    cpu_s: float,
    peak_mb: float,
    judged: dict[str, Any],
) -> dict[str, Any]:
    return {
        "simulator": simulator,
        "log": given.path.name,
        "policy": policy,
        "cpu_s": cpu_s,
        "jobs_per_cpu_s": judged["jobs"] / cpu_s,
        "peak_mb": peak_mb,
        **judged,
    }


def _judged(normal: LogGiven, schedule: Path, policy: str) -> dict[str, Any]:
    """The metrics of a schedule, with one calculator for all, and what kalends' checker finds in it."""
    starts = {}
    with schedule.open(newline="") as stream:
        for row in csv.DictReader(stream):
            starts[int(row["job_id"])] = int(row["starting_time"])
    jobs = wait_s = longest_s = node_s = last_s = 0
    bounded = 0.0
    for job in open_log(normal.path, nodes=normal.nodes):
        wait = starts[job.id] - job.submit_s
        jobs += 1
        wait_s += wait
        longest_s = max(longest_s, wait)
        node_s += job.nodes * job.run_s
        bounded += max(1.0, (wait + job.run_s) / max(job.run_s, _TAU_S))
        last_s = max(last_s, starts[job.id] + job.run_s)
    return {
        "jobs": jobs,
        "mean_wait_s": wait_s / jobs,
        "max_wait_s": longest_s,
        "mean_bounded_slowdown": bounded / jobs,
        "utilization": node_s / (normal.nodes * last_s),
        "makespan_s": last_s,
        **_checked(normal, schedule, policy),
    }


def _checked(normal: LogGiven, schedule: Path, policy: str) -> dict[str, Any]:
    # It ends with 1 where something is wrong, which is an answer here.
    done = subprocess.run(
        [*PROGRAM, "check-schedule", normal.path, schedule, "--policy", policy,
         "--nodes", str(normal.nodes), "--json"],
        stdout=subprocess.PIPE, text=True, check=False, env=os.environ,
    )  # fmt: skip
    found = json.loads(done.stdout)["data"]
    return {name: found[name] for name in ("waited", "broken_promises", "worst_s", "kinds")}
