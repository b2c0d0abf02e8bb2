"""Sources of simulated jobs: logs of real machines, and generators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from kalends.simulation.job import SimulatedJob

Workload = str | Path | Iterable[SimulatedJob] | Callable[[], Iterable[SimulatedJob]]
"""The path of a log; jobs in order of submission; or a function that makes such jobs."""
