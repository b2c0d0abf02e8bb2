"""kalends by itself: whole processes, the layers that they are made of, and long queues."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.simulating import logs
from benchmarks.simulating.processes import PROGRAM, Child

CHILD: Final = [sys.executable, Path(__file__).with_name("child.py")]
QUEUE_JOBS: Final = 3_000


class LogGiven(NamedTuple):
    """A log, and of how many nodes its machine is."""

    path: Path
    nodes: int


def simulate(given: LogGiven, policy: str, *more: str | Path) -> list[str | Path]:
    return [
        *PROGRAM, "simulate", given.path, "--nodes", str(given.nodes), "--policy", policy,
        "--json", *more,
    ]  # fmt: skip


def whole(child: Child, folder: Path, given: LogGiven, policy: str, runs: int) -> dict[str, Any]:
    """A whole process: without, and with, writing the schedule as a log."""
    _, printed = child.run(simulate(given, policy))
    [result] = json.loads(printed)["data"]
    out = folder / "out.swf"
    plain = child.median(simulate(given, policy), runs)
    writing = child.median(simulate(given, policy, "--out", out), runs, made=out)
    return {
        "log": given.path.name,
        "policy": policy,
        "jobs": result["jobs"],
        "cpu_s": plain.cpu_s,
        "jobs_per_cpu_s": result["jobs"] / plain.cpu_s,
        "peak_mb": plain.peak_mb,
        "writing_cpu_s": writing.cpu_s,
        "writing_jobs_per_cpu_s": result["jobs"] / writing.cpu_s,
        "writing_peak_mb": writing.peak_mb,
        "mean_wait_s": result["mean_wait_s"],
        "mean_bounded_slowdown": result["mean_bounded_slowdown"],
    }


def layers(child: Child, folder: Path, given: LogGiven, policy: str, runs: int) -> dict[str, Any]:
    """CPU seconds of each layer: with it, less without it, each a whole process."""
    one, out = LogGiven(folder / "one.swf", given.nodes), folder / "out.swf"
    logs.write_one(given.path, one.path, nodes=given.nodes)

    def part(name: str, of: LogGiven) -> float:
        command = [*CHILD, name, of.path, str(of.nodes), policy]
        return child.median(command, runs).cpu_s

    python_s = child.median([sys.executable, "-c", "pass"], runs).cpu_s
    loaded_s = child.median(simulate(one, policy), runs).cpu_s
    read_s, replayed_s, measured_s = (part(name, given) for name in ("read", "replay", "measure"))
    whole_s = child.median(simulate(given, policy), runs).cpu_s
    written_s = child.median(simulate(given, policy, "--out", out), runs, made=out).cpu_s
    return {
        "log": given.path.name,
        "policy": policy,
        "python_s": python_s,
        "loading_s": loaded_s - python_s,
        "reading_s": read_s - part("read", one),
        "replaying_s": replayed_s - read_s,
        "measuring_s": measured_s - replayed_s,
        "writing_s": written_s - whole_s,
        "whole_s": whole_s,
    }


def queue(child: Child, folder: Path, policy: str, waiting: int, runs: int) -> dict[str, Any]:
    """What a job costs while about so many wait."""
    path = folder / f"queue-{waiting}.swf"
    if not path.exists():
        logs.write_queue(path, waiting=waiting, jobs=QUEUE_JOBS)
    command = [*CHILD, f"queue{QUEUE_JOBS}", path, str(logs.QUEUE_NODES), policy]
    told = [json.loads(child.run(command)[1]) for _ in range(runs)]
    middle = sorted(told, key=lambda each: each["us"])[runs // 2]
    return {"policy": policy, "wanted": waiting, **middle}


def growth(rows: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Microseconds a job by policy, in the order of the queues."""
    table: dict[str, list[float]] = {}
    for row in rows:
        table.setdefault(row["policy"], []).append(row["us"])
    return table
