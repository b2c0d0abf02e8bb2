"""The systems that the suite runs against: a simulated one always, real ones where they are installed."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.job_rates import loopback_slurm

from tests.backends.simulated_at_hand import SimulatedAtHand
from tests.backends.slurm_at_hand import SlurmAtHand
from tests.backends.system_at_hand import Bench, Slots, SystemAtHand

NODES = 4


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmAtHand]:
    top = Path(tempfile.mkdtemp(prefix="kalends-slurm-"))
    # Its daemons are let in whoever they run as.
    top.chmod(0o755)
    try:
        with loopback_slurm.LoopbackSlurm(top, NODES) as cluster:
            yield SlurmAtHand(cluster, top)
    finally:
        shutil.rmtree(top)


@pytest.fixture(scope="session")
def all_slots() -> Slots:
    return Slots(int(time.time()))


@pytest.fixture(
    params=["simulated", "careless", pytest.param("slurm", marks=pytest.mark.needs_slurm)]
)
def system(request: pytest.FixtureRequest) -> SystemAtHand:
    if request.param == "slurm":
        real: SlurmAtHand = request.getfixturevalue("slurm")
        return real
    return SimulatedAtHand(careless=request.param == "careless")


@pytest.fixture
def bench_of_all(system: SystemAtHand, all_slots: Slots) -> Bench:
    """A bench whose names were never used: the first number is the time."""
    return Bench(system, all_slots, time.time_ns() // 1_000)
