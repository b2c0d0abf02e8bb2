"""The contention benchmark against real processes: it starts, competes, gives figures, and leaves nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.xdist_group("one-at-a-time")

ROOT = Path(__file__).resolve().parents[2]


def test_real_processes_serve_competing_clients_and_tell_what_it_costs() -> None:
    done = subprocess.run(
        [sys.executable, "benchmarks/contention.py", "--live", "--quick", "--clients", "3"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    alone, together = json.loads(done.stdout)["live"]
    assert (alone["spread"], together["spread"]) == ("disjoint", "uniform")
    assert alone["of_disjoint"] == 1
    for row in (alone, together):
        assert row["bookings"] > 0
        assert row["tries"] >= 1
        assert 0 < row["jain"] <= 1
        assert row["broker_us"] > 0 < row["sites_us"]
    assert "Real processes on loopback" in done.stderr
