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
from kalends.broker.reconciliation import recognition
from kalends.broker.register.sqlite.broker_store import BrokerStore
from kalends.broker.register.writes import LeaseRenewal
from kalends.broker.replica import heartbeat, leases
from kalends.broker.service import BrokerService
from kalends.serving.alarms import Alarms
from kalends.serving.metrics import Metrics

WAIT_S = 20.0


@asynccontextmanager
async def beating(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    store: type[BrokerStore] = BrokerStore,
    site: str = "",
) -> AsyncIterator[BrokerService]:
    """A replica whose heartbeat is as fast as it can be; its `site` never comes."""
    monkeypatch.setattr(heartbeat, "BEAT_EVERY_S", 0.001)
    sites = Directory({site: "http://127.0.0.1:1"} if site else {})
    logger: Any = structlog.wrap_logger(
        structlog.WriteLogger(io.StringIO()),
        processors=[structlog.processors.format_exc_info, structlog.processors.JSONRenderer()],
    )
    metrics = Metrics(role="broker", name="npaci", version="1")
    measures = Measures(metrics, sites, dict)
    service = BrokerService(
        replica="npaci-1",
        coords=(),
        open_store=lambda: store.open(directory / "npaci.sqlite", "npaci", measures.committed),
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
        self._look: Callable[[Mapping[str, int], int, int], None] = service.leases.look
        self._fault = fault
        self._count = count
        self._looked = asyncio.Event()
        service.leases.look = self.look  # type: ignore[method-assign]  # a fault in a beat

    def look(self, beats: Mapping[str, int], asked_ms: int, seen_ms: int) -> None:
        self.taken += 1
        self._looked.set()
        if self._fault is not None and self.taken <= self._count:
            raise self._fault
        self._look(beats, asked_ms, seen_ms)

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


async def test_a_heartbeat_that_is_woken_in_the_turn_in_which_it_is_stopped_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with beating(tmp_path, monkeypatch) as service:
        monkeypatch.setattr(heartbeat, "BEAT_EVERY_S", WAIT_S)
        await asyncio.sleep(0.1)
        service.heartbeat.wake()
        await service.heartbeat.stop()


async def test_an_owner_that_is_dead_and_has_left_nothing_is_taken_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with beating(tmp_path, monkeypatch) as service:
        await service.store.writer.run([LeaseRenewal("npaci-9:1", 1)])
        assert "npaci-9:1" in (await service.store.look()).beats
        monkeypatch.setattr(leases, "LEASE_MS", 0)
        looks = Looks(service, None, 0)
        while "npaci-9:1" in (outlook := await service.store.look()).beats:
            await looks.until(looks.taken + 1)
        assert service.coordinator.identity.owner in outlook.beats


class Promoted(BrokerStore):
    """A register whose database has failed over."""

    promoted = True
    believed = False

    async def believe(self) -> None:
        self.believed = True


async def test_after_a_failover_what_no_site_has_confirmed_is_in_doubt_until_the_operator_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recognition, "LISTEN_MS", 0)
    async with beating(tmp_path, monkeypatch, store=Promoted, site="sdsc") as service:
        looks = Looks(service, None, 0)
        await looks.until(3)
        doubt = service.replica.doubt()
        assert doubt is not None
        assert "have not confirmed yet that nothing was lost: sdsc" in doubt.detail
        assert "kalends admin reconcile --go-on" in doubt.remedy
        assert service.alarms.problems == (doubt.detail,)
        assert (service.trouble(), service.replica.check()) == ("", None), "bookings go on"
        store = service.store
        assert isinstance(store, Promoted)
        assert not store.believed
        await service.comparisons.reconcile(0.0, go_on=True)
        assert (service.replica.doubt(), service.alarms.problems) == (None, ())
        while not store.believed:
            await looks.until(looks.taken + 1)
