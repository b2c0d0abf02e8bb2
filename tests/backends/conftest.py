"""The systems that the suite runs against: a simulated one always, real ones where they are installed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.conformance.fixtures import *  # noqa: F403  # of the suite
from tests.backends.conformance.system_at_hand import SystemAtHand
from tests.backends.loopback_oar import LoopbackOar
from tests.backends.oar_at_hand import OarAtHand
from tests.backends.operated_slurm import OperatedSlurm
from tests.backends.simulated_at_hand import SimulatedAtHand
from tests.backends.slurm_at_hand import SlurmAtHand

NODES = 4


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmAtHand]:
    top = Path(tempfile.mkdtemp(prefix="kalends-slurm-"))
    # Its daemons are let in whoever they run as.
    top.chmod(0o755)
    try:
        with OperatedSlurm(top, NODES) as cluster:
            yield SlurmAtHand(cluster, top)
    finally:
        shutil.rmtree(top)


@pytest.fixture(scope="session")
def slurm_in_parts() -> Iterator[SlurmAtHand]:
    """Ten nodes of four cores, and ten licences: Slurm has n10 after n9, and we after n1."""
    top = Path(tempfile.mkdtemp(prefix="kalends-slurm-"))
    top.chmod(0o755)
    try:
        with OperatedSlurm(top, 10, cores=4, licences="matlab:10") as cluster:
            yield SlurmAtHand(cluster, top, in_parts=True)
    finally:
        shutil.rmtree(top)


@pytest.fixture(scope="session")
def oar() -> Iterator[OarAtHand]:
    top = Path(tempfile.mkdtemp(prefix="kalends-oar-"))
    top.chmod(0o755)
    nodes = [f"n{number}" for number in range(1, NODES + 1)]
    try:
        with LoopbackOar(top, nodes, [OarAtHand.user, OarAtHand.other_user]) as one:
            yield OarAtHand(one)
    finally:
        shutil.rmtree(top)


@pytest.fixture(
    params=[
        "simulated",
        "careless",
        pytest.param("slurm", marks=pytest.mark.needs_slurm),
        pytest.param("oar", marks=pytest.mark.needs_oar),
    ]
)
def system(request: pytest.FixtureRequest) -> SystemAtHand:
    if request.param in ("slurm", "oar"):
        real: SystemAtHand = request.getfixturevalue(request.param)
        return real
    return SimulatedAtHand(careless=request.param == "careless")
