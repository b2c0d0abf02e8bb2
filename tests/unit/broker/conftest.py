"""A broker, a world in which it reclaims, and two users of servers, for each test that asks for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from sqlite3 import Connection

import pytest
from tests.protocol_broker import Broker, new_register
from tests.reclaim_world import ReclaimWorld

from kalends.client.client import Client
from kalends.testing import LocalFacility


@pytest.fixture
def register() -> Connection:
    return new_register()


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def world() -> ReclaimWorld:
    return ReclaimWorld()


@pytest.fixture
async def ann(servers: LocalFacility) -> AsyncIterator[Client]:
    """A user of the broker of a test's own `servers`."""
    async with servers.client("ann") as ann:
        yield ann


@pytest.fixture
async def bob(servers: LocalFacility) -> AsyncIterator[Client]:
    async with servers.client("bob") as bob:
        yield bob
