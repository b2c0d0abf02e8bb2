"""Schedules with every fault keep every promise, and each fault has struck."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests import effort
from tests.simulation.schedule import complaint, run

SEEDS = effort.examples(250)
SHARE = 250
"""Seeds in one test: enough for every kind of fault to strike."""

FAULTS = (
    "loss", "duplicate", "late", "client loss", "lost in a partition",
    "session broken", "partition", "one-way partition", "flapping", "brokers silent",
    "pause", "clock skew", "clock jump", "clock drift",
    "crash", "crash before a site stores", "crash after a site stored", "crash before a site sends",
    "crash before a site sends an agent",
    "crash before the register stores", "crash after the register stored",
    "crash before a broker sends", "crash before a broker answers",
    "torn write", "torn log", "disk full", "failed sync",
    "register disk full", "register failed sync",
)  # fmt: skip


@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_every_promise_is_kept_under_every_fault(first: int) -> None:
    faults: Counter[str] = Counter()
    reserved = operations = unknown = waits = 0
    complaints = []
    for seed in range(first, first + SHARE):
        report = run(seed)
        faults += report.faults
        reserved += report.reserved
        operations += report.numbers.operations
        unknown += report.numbers.unknown
        waits += report.waits
        if report.violation:
            complaints.append(complaint(report))
    effort.operations["slots in schedules"] += operations
    assert not complaints, "\n\n".join(complaints[:5])
    assert [kind for kind in FAULTS if not faults[kind]] == []
    assert set(faults) <= set(FAULTS)
    assert reserved > 2 * SHARE
    assert operations > 50 * SHARE, "checked for linearizability"
    assert unknown == 0
    assert waits > SHARE


@pytest.mark.parametrize("seed", range(0, SEEDS, SEEDS // 20))
def test_a_seed_replays_bit_for_bit(seed: int) -> None:
    assert run(seed).trace_hash == run(seed, keep_trace=True).trace_hash


def test_a_seed_replays_bit_for_bit_in_another_process() -> None:
    expected = [run(seed).trace_hash for seed in (7, 50)]
    for hash_seed in ("1", "2"):
        found = []
        for seed in ("7", "50"):
            done = subprocess.run(
                [sys.executable, "-m", "tests.simulation.replay", seed],
                env={**os.environ, "PYTHONHASHSEED": hash_seed},
                capture_output=True,
                text=True,
                check=True,
            )
            found.append(done.stdout.splitlines()[-1].removeprefix("trace "))
        assert found == expected
