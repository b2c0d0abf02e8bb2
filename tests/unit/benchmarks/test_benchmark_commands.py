"""benchmarks/commands.py runs each command for real, and stops when one of them fails."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from benchmarks.commands import COMMANDS, cpu_ms
from benchmarks.facility import ROOT


def test_every_command_succeeds_and_its_cpu_time_is_told() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.commands", "--runs", "1", "--json"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert list(told) == [name for name, _, _ in COMMANDS]
    assert all(median_ms > 0 for median_ms in told.values())


def test_a_command_that_fails_is_no_figure() -> None:
    with pytest.raises(SystemExit, match="kalends queue nonsense ended with 2"):
        cpu_ms(("queue", "nonsense"), "http://127.0.0.1:9")
