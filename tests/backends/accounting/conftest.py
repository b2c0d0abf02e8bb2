"""The systems that keep accounts."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.backends.conformance.system_at_hand import SystemAtHand
from tests.backends.operated_slurm import OperatedSlurm
from tests.backends.simulated_at_hand import SimulatedAtHand
from tests.backends.slurm_at_hand import SlurmAtHand

NEEDS_ACCOUNTING: Final = [pytest.mark.needs_slurm, pytest.mark.needs_accounting]


@pytest.fixture(scope="session")
def accounted_slurm() -> Iterator[SlurmAtHand]:
    top = Path(tempfile.mkdtemp(prefix="kalends-slurm-"))
    top.chmod(0o755)
    try:
        with OperatedSlurm(top, 4, accounting=True) as cluster:
            yield SlurmAtHand(cluster, top)
    finally:
        shutil.rmtree(top)


@pytest.fixture(params=["simulated", "careless", pytest.param("slurm", marks=NEEDS_ACCOUNTING)])
def system(request: pytest.FixtureRequest) -> SystemAtHand:
    if request.param == "slurm":
        real: SystemAtHand = request.getfixturevalue("accounted_slurm")
        return real
    return SimulatedAtHand(careless=request.param == "careless")
