"""A queue with a reservation, for each test that needs no other one."""

from __future__ import annotations

import pytest
from tests.reserved_room import Room


@pytest.fixture
def room() -> Room:
    return Room()
