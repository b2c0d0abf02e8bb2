"""A broker that asks sites for bids, for each test of jobs."""

from __future__ import annotations

import pytest
from tests.unit.broker.jobs.test_solicitation import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()
