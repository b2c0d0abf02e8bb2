"""The heartbeat of a replica: no beat is its last, and health says when the lease is not renewed."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from kalends.broker import service as shell
from kalends.broker.metrics import Measures
from kalends.broker.planning.directory import Directory
from kalends.broker.register.broker_store import BrokerStore
from kalends.broker.replica import heartbeat
from kalends.broker.service import BrokerService
from kalends.serving.alarms import Alarms
from kalends.serving.metrics import Metrics

WAIT_S = 20.0


@asynccontextmanager
async def beating(directory: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[BrokerService]:
    """A replica without sites whose heartbeat is as fast as it can be."""
    monkeypatch.setattr(heartbeat, "BEAT_EVERY_S", 0.001)
    sites = Directory({})
    logger: Any = structlog.wrap_logger(
        structlog.WriteLogger(io.StringIO()),
        processors=[structlog.processors.format_exc_info, structlog.processors.JSONRenderer()],
    )
    metrics = Metrics(role="broker", name="npaci", version="1")
    measures = Measures(metrics, sites, dict)
    service = BrokerService(
        replica="npaci-1",
        coords=(),
        open_store=lambda: BrokerStore.open(
            directory / "npaci.sqlite", "npaci", measures.committed
        ),
        directory=sites,
        open_per_user_max=10,
        alarms=Alarms(logger, measures.alarms.inc),
        logger=logger,
        metrics=metrics,
        measures=measures,
    )
    await service.start()
    try:
        async with asyncio.timeout(WAIT_S):
            yield service
    finally:
        await service.stop(0.0)


class Looks:
    """Looks at the beats of all replicas, which each beat takes; `fault` comes instead of the first ones."""

    def __init__(self, service: BrokerService, fault: BaseException | None, count: int) -> None:
        self.taken = 0
        self._look: Callable[[Mapping[str, int], int], None] = service.leases.look
        self._fault = fault
        self._count = count
        self._looked = asyncio.Event()
        service.leases.look = self.look  # type: ignore[method-assign]  # a fault in a beat

    def look(self, beats: Mapping[str, int], monotonic_ms: int) -> None:
        self.taken += 1
        self._looked.set()
        if self._fault is not None and self.taken <= self._count:
            raise self._fault
        self._look(beats, monotonic_ms)

    async def until(self, count: int) -> None:
        while self.taken < count:
            self._looked.clear()
            await self._looked.wait()


@pytest.mark.parametrize("fault", [ValueError("a fault of ours"), asyncio.CancelledError()])
async def test_a_beat_that_fails_is_not_the_last(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with beating(tmp_path, monkeypatch) as service:
        looks = Looks(service, fault, 3)
        await looks.until(5)
        assert len(service.alarms.problems) == 3
        assert service.trouble() == ""


async def test_health_says_that_the_lease_is_not_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with beating(tmp_path, monkeypatch) as service:
        looks = Looks(service, ValueError("for ever"), 1 << 60)
        await looks.until(2)
        monkeypatch.setattr(shell, "LEASE_MS", 0)
        assert "lease of this replica was not renewed" in service.trouble()
