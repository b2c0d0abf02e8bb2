"""The same of Slurm as of a live site: submissions, no-op jobs, time to the program, memory of a job."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from benchmarks.shepherds import pss_kb
from kalends.demo.clusters.loopback_slurm import LoopbackSlurm

LOOK_EVERY_S = 0.05
NO_OUTPUT = ("-o", "/dev/null", "-H", "--parsable", "--wrap", "true")


def submissions(slurm: LoopbackSlurm, count: int) -> dict[str, float]:
    """Held jobs a second: by one command each, and as an array."""
    began_s = time.perf_counter()
    for _ in range(count):
        slurm.said("sbatch", *NO_OUTPUT)
    commands = count / (time.perf_counter() - began_s)
    began_s = time.perf_counter()
    slurm.said("sbatch", "--array=1-1000", *NO_OUTPUT)
    array = 1_000 / (time.perf_counter() - began_s)
    slurm.said("scancel", "-u", "root")
    _until_empty(slurm)
    return {"commands": commands, "array": array}


def no_ops(slurm: LoopbackSlurm, count: int) -> float:
    """Jobs a second, from the submission of an array that does nothing to the end of its last."""
    began_s = time.perf_counter()
    slurm.said("sbatch", f"--array=1-{count}", "-o", "/dev/null", "--wrap", "true")
    _until_empty(slurm)
    return count / (time.perf_counter() - began_s)


def submit_to_start(slurm: LoopbackSlurm, count: int, folder: Path) -> list[float]:
    """Milliseconds from the command to the first breath of the program, one job after the other."""
    waits = []
    for number in range(count):
        told = folder / f"slurm-at-{number}"
        at_s = time.time()
        slurm.said("sbatch", "-o", str(told), "--wrap", "exec /bin/date +%s.%N")
        _until_empty(slurm)
        waits.append(1e3 * (float(told.read_text()) - at_s))
    return waits


def job_memory_kb(slurm: LoopbackSlurm, count: int) -> float:
    """Memory of what looks after a running job."""
    slurm.said("sbatch", f"--array=1-{count}", "-o", "/dev/null", "--wrap", "exec sleep 3600")
    while len(daemons := slurm.step_daemons()) < count:
        time.sleep(LOOK_EVERY_S)
    memory_kb = statistics.mean(map(pss_kb, daemons))
    slurm.said("scancel", "-u", "root")
    _until_empty(slurm)
    return memory_kb


def _until_empty(slurm: LoopbackSlurm) -> None:
    while slurm.jobs():
        time.sleep(LOOK_EVERY_S)
