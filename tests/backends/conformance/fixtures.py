"""Fixtures of the suite, which stand on the fixture `system`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.backends.conformance.owners import Owners, owners
from tests.backends.conformance.system_at_hand import Bench, Slots, SystemAtHand, cleared


@pytest.fixture(scope="session")
def all_slots() -> Slots:
    return Slots(int(time.time()))


@pytest.fixture
def bench_of_all(system: SystemAtHand, all_slots: Slots) -> Bench:
    """A bench whose names were never used: the first number is the time."""
    return Bench(system, all_slots, time.time_ns() // 1_000)


@pytest.fixture
async def facility(system: SystemAtHand, tmp_path: Path) -> AsyncIterator[Owners]:
    async with cleared(system), owners(tmp_path, system) as found:
        yield found
