"""What a child process costs, from its start to its end."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

PROGRAM = [sys.executable, "-m", "kalends"]


class Cost(NamedTuple):
    """What a process took (or the median of several): CPU time, wall time, and memory at its peak."""

    cpu_s: float
    wall_s: float
    peak_mb: float


class Child:
    """Runs children that keep their byte code, as installed programs do, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(self, command: Sequence[str | Path]) -> tuple[Cost, str]:
        """One run, and what it printed. Raises `CalledProcessError` where it fails."""
        with tempfile.TemporaryFile("w+") as said:
            before = os.times()
            child = subprocess.Popen(command, stdout=said, env=self._environment)
            _, status, usage = os.wait4(child.pid, 0)
            wall_s = os.times().elapsed - before.elapsed
            child.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            printed = said.read()
        if child.returncode:
            raise subprocess.CalledProcessError(child.returncode, command, printed)
        cost = Cost(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss / 1024)
        return cost, printed

    def median(self, command: Sequence[str | Path], runs: int, made: Path | None = None) -> Cost:
        """The median of several runs. `made` is the file that the command makes, anew each time."""
        costs = []
        for _ in range(runs):
            costs.append(self.run(command)[0])
            if made is not None:
                made.unlink()
        return Cost(*map(statistics.median, zip(*costs, strict=True)))
