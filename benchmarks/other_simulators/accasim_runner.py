"""AccaSim (Galleguillos et al.), from the Python package index, on a log in normal form."""

from __future__ import annotations

import argparse
import calendar
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.other_simulators.normal_form import write_normal_form

VERSION = "1.1.3"
POLICIES = ("fcfs", "easy")

_CHILD = Path(__file__).with_name("accasim_child.py")
_TIME = r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)"
_LINE = re.compile(rf"(\d+);[^;]*;{_TIME}__(.*)__{_TIME};{_TIME};(\d+);")


class OtherRun(NamedTuple):
    """What one run of another simulator cost, its whole process from start to end."""

    simulator: str
    policy: str
    jobs: int
    wall_s: float
    cpu_s: float
    peak_mb: float
    """Zero where the system does not tell it for one child alone."""


def run_accasim(
    log: Path,
    out: Path,
    *,
    nodes: int,
    policy: str,
    environment: Path,
    python: str = sys.executable,
) -> OtherRun:
    """Simulate `log`, which is in normal form, and write its schedule to `out` as CSV, in Batsim's columns.

    `environment` is a folder for AccaSim's virtual environment, made by `python` and pip if it is not
    there yet.
    Raises `CalledProcessError` if pip or AccaSim fail, and `RuntimeError` if jobs are missing.
    """
    its_python = _environment(environment, python)
    with tempfile.TemporaryDirectory() as folder:
        system = Path(folder) / "system.json"
        system.write_text(
            json.dumps(
                {
                    "system_name": "pool",
                    "start_time": 0,
                    "equivalence": {"processor": {"core": 1}},
                    "groups": {"node": {"core": 1}},
                    "resources": {"node": nodes},
                }
            )
        )
        results = Path(folder) / "results"
        results.mkdir()
        wall_s, cpu_s, peak_mb = _run(
            [str(its_python), str(_CHILD), str(log.resolve()), str(system), policy, f"{results}/"],
            folder,
        )
        [schedule] = results.rglob("sched-*")
        jobs = _as_csv(schedule, out)
    expected = sum(1 for line in log.open() if line.strip() and line[0] != ";")
    if jobs != expected:
        raise RuntimeError(f"AccaSim scheduled {jobs} jobs of {expected}")
    return OtherRun(f"AccaSim {VERSION}", policy, jobs, wall_s, cpu_s, peak_mb)


def _environment(folder: Path, base_python: str) -> Path:
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([base_python, "-m", "venv", str(folder)], check=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", f"accasim=={VERSION}"],
            check=True,
            stdout=sys.stderr,
        )
        (folder / "ready").touch()
    return python


def _run(command: list[str], folder: str) -> tuple[float, float, float]:
    """Run a child with its own small output thrown away; wall and CPU seconds, and peak megabytes."""
    began_s = time.perf_counter()
    with open(os.devnull, "w") as nowhere:
        child = subprocess.Popen(
            command, cwd=folder, stdout=nowhere, env={**os.environ, "TZ": "UTC"}
        )
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    wall_s = time.perf_counter() - began_s
    return wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def _as_csv(schedule: Path, out: Path) -> int:
    jobs = 0
    with schedule.open() as stream, out.open("w", newline="") as written:
        writer = csv.writer(written)
        writer.writerow(
            (
                "job_id",
                "submission_time",
                "requested_number_of_resources",
                "starting_time",
                "finish_time",
            )
        )
        for line in stream:
            found = _LINE.match(line)
            if found is None:
                raise RuntimeError(f"AccaSim wrote {line!r}")
            submit, start, end = (
                calendar.timegm(time.strptime(found[at], "%Y-%m-%d %H:%M:%S")) for at in (2, 4, 5)
            )
            writer.writerow((found[1], submit, found[6], start, end))
            jobs += 1
    return jobs


def main() -> None:
    """``python -m benchmarks.other_simulators.accasim_runner LOG --nodes N --out CSV --environment DIR``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--policy", choices=POLICIES, default="easy")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--environment", type=Path, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        normal = Path(folder) / "log.swf"
        write_normal_form(given.log, normal, nodes=given.nodes)
        ran = run_accasim(
            normal, given.out, nodes=given.nodes, policy=given.policy, environment=given.environment
        )
    print(
        f"{ran.simulator} {ran.policy}: {ran.jobs} jobs, {ran.wall_s:.1f} s, {ran.cpu_s:.1f} CPU s,"
        f" {ran.jobs / ran.cpu_s:.0f} jobs per CPU second, {ran.peak_mb:.0f} MB"
    )


if __name__ == "__main__":
    main()
