"""A room to run jobs in, and clusters of PostgreSQL to break."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import postgres_clusters
import pytest
from postgres_clusters import Cluster

from tests.processes.job_room import JobRoom, job_room


@pytest.fixture
async def room() -> AsyncIterator[JobRoom]:
    async with job_room() as opened:
        yield opened


@pytest.fixture
def pair() -> Iterator[tuple[Cluster, Cluster]]:
    """A primary, and a standby that its commits wait for."""
    with postgres_clusters.pair(postgres_clusters.shared_template()) as found:
        yield found


@pytest.fixture
def alone() -> Iterator[Cluster]:
    with postgres_clusters.cluster(postgres_clusters.shared_template()) as found:
        yield found
