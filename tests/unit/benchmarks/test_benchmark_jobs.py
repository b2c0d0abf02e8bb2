"""The benchmark of jobs: it goes through real sites, tells each figure, and says why there is no Slurm."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.job_rates import loopback_slurm
from benchmarks.jobs import Row, shown

ROOT = Path(__file__).resolve().parents[3]


def test_it_measures_sites_and_tells_all_figures() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.jobs", "--jobs", "3", "--running", "2", "--waiting",
         "100", "--without-slurm", "--json"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert told["without_slurm"] == "nobody asked for it"
    rows = [Row(**each) for each in told["rows"]]
    assert all(row.ours > 0 and row.slurm is None for row in rows)
    assert {row.what for row in rows} >= {"no-op jobs", "2 running jobs adopted"}
    assert len(shown(told).splitlines()) == len(rows) + 2


def test_a_host_without_slurm_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback_slurm, "SYSTEM_PATH", "")
    assert "no slurmctld" in loopback_slurm.why_not()
    assert loopback_slurm.PACKAGES in loopback_slurm.why_not()
