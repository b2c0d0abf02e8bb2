"""The benchmark of jobs: it goes through real sites, tells each figure, and says why there is no Slurm."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from benchmarks.jobs import Row, shown

from kalends.demo.clusters import loopback_slurm

ROOT = Path(__file__).resolve().parents[3]


def test_it_measures_sites_tells_all_figures_and_leaves_nothing() -> None:
    # Where those who run jobs may pass, too.
    with tempfile.TemporaryDirectory(prefix="kb-") as top:
        os.chmod(top, 0o711)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.jobs", "--jobs", "3", "--running", "2", "--waiting",
             "100", "--without-slurm", "--json"],
            cwd=ROOT, env={**os.environ, "TMPDIR": top}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert os.listdir(top) == []
        # All has been told to end: a zygote still has to hear that its server is gone.
        while _processes_that_name(top):
            time.sleep(0.05)
    told = json.loads(done.stdout)
    assert told["without_slurm"] == "nobody asked for it"
    rows = [Row(**each) for each in told["rows"]]
    assert all(row.ours > 0 and row.slurm is None for row in rows)
    assert {row.what for row in rows} >= {"no-op jobs", "2 running jobs adopted"}
    assert len(shown(told).splitlines()) == len(rows) + 2


def _processes_that_name(folder: str) -> list[str]:
    """Return those with the folder among their arguments or in their environment."""
    found = []
    for each in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            told = [Path(f"/proc/{each}/{name}").read_bytes() for name in ("cmdline", "environ")]
            if any(folder.encode() in each for each in told):
                found.append(each)
    return found


def test_a_host_without_slurm_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback_slurm, "SYSTEM_PATH", "")
    assert "no slurmctld" in loopback_slurm.why_not()
    assert loopback_slurm.PACKAGES in loopback_slurm.why_not()
