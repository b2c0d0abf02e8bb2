"""A room to run jobs in."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.processes.job_room import JobRoom, job_room


@pytest.fixture
async def room() -> AsyncIterator[JobRoom]:
    async with job_room() as opened:
        yield opened
