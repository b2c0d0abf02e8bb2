"""A broker, and a world in which it reclaims, for each test of a coordinator."""

from __future__ import annotations

from sqlite3 import Connection

import pytest
from tests.protocol_broker import Broker, new_register
from tests.reclaim_world import ReclaimWorld


@pytest.fixture
def register() -> Connection:
    return new_register()


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def world() -> ReclaimWorld:
    return ReclaimWorld()
