"""A real Grid Engine for the conformance suite of kalends."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import loopback_gridengine
import pytest
from gridengine_at_hand import GridEngineAtHand
from tests.backends.conformance.fixtures import *  # noqa: F403  # those of the suite
from tests.needs import Need, declare

NODES = [f"n{number}" for number in range(1, 5)]


def why_no_gridengine() -> str:
    """Return why no Grid Engine can be run here; "" if one can."""
    why = loopback_gridengine.why_not()
    return f"{why} (make test-gridengine does it for root)" if why else ""


def pytest_configure(config: pytest.Config) -> None:
    asked = "make test-gridengine runs them, in half an hour"
    declare(config, Need("needs_gridengine", "runs a real Grid Engine", why_no_gridengine, asked))


@pytest.fixture(scope="session")
def system() -> Iterator[GridEngineAtHand]:
    top = Path(tempfile.mkdtemp(prefix="kalends-gridengine-"))
    # Its daemons run as other users.
    top.chmod(0o755)
    try:
        with loopback_gridengine.LoopbackGridEngine(top, NODES) as cell:
            yield GridEngineAtHand(cell, top)
    finally:
        shutil.rmtree(top)
