"""Servers, zygotes and shepherds killed at any moment: no job is lost unsaid, or started twice."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest

from .job_soak import soak

pytestmark = pytest.mark.xdist_group("one-at-a-time")

KILLS = 20


async def test_jobs_outlive_kills_of_the_processes_that_run_them_and_all_is_told() -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"python -m tests.processes.job_soak --kills {KILLS} --seed {seed}")
    # Not in pytest's own folder, which only root could enter.
    with tempfile.TemporaryDirectory(prefix="kalends-soak-") as directory:
        report = await soak(Path(directory), kills=KILLS, seed=seed)
    print(report.as_json())
    assert report.violations == []
    assert report.struck.total() >= KILLS
    assert report.jobs["exit"] > KILLS / 2, "there was hardly any load"
    assert report.attempts["lost"] > 0, "no shepherd was killed with its job"
