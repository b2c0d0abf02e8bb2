"""The benchmark of bids runs, and tells what it is to tell."""

from __future__ import annotations

import json
import subprocess
import sys


def test_jobs_are_placed_and_counted() -> None:
    command = [
        sys.executable, "-m", "benchmarks.bids", "--sites", "2", "--jobs", "8", "--waiting", "2", "--json",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert report.keys() == {
        "jobs_a_second", "bids_a_second", "p50_ms", "p99_ms", "site_cpu_ms_a_bid",
        "broker_cpu_ms_a_job",
    }  # fmt: skip
    assert report["jobs_a_second"] > 0
