"""A broker, and a world in which it reclaims, for each test of a coordinator."""

from __future__ import annotations

import pytest
from tests.protocol_broker import Broker
from tests.reclaim_world import ReclaimWorld


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def world() -> ReclaimWorld:
    return ReclaimWorld()
