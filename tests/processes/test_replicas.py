"""Replicas of one broker: whatever one has decided, the other says too, also about what it began."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import kalends
from kalends.contract.calls import RequestView

from .customers import base_now_s
from .facility import GRAIN_S, connected, make_facility
from .servers import running

pytestmark = pytest.mark.xdist_group("one-at-a-time")

TERMS = "site0/cluster:2 + site1/cluster:3"


@pytest.fixture
async def replicas(tmp_path: Path) -> AsyncIterator[tuple[kalends.Client, kalends.Client]]:
    facility = make_facility(tmp_path, sites=2)
    first, second = facility.brokers
    async with (
        running(*facility.servers),
        kalends.connect(first.url, user="ada", zone="UTC") as one,
        kalends.connect(second.url, user="ada", zone="UTC") as other,
    ):
        await connected(facility)
        yield one, other


async def held(client: kalends.Client, key: str) -> RequestView:
    at = base_now_s()
    return await client.hold(TERMS, duration=GRAIN_S, at=at, keep="10m", key=key)


async def test_what_one_replica_held_and_another_locked_is_cancelled_by_the_first(
    replicas: tuple[kalends.Client, kalends.Client],
) -> None:
    one, other = replicas
    view = await held(one, "hold-of-ada")
    assert (await other.lock(view.id)).state == "reserved"
    assert (await held(one, "hold-of-ada")).state == "reserved"
    cancelled = await one.cancel(view.id)
    assert cancelled.state == "cancelled"
    assert (await other.show(view.id)).state == "cancelled"


async def test_what_one_replica_held_and_another_released_cannot_be_locked_by_the_first(
    replicas: tuple[kalends.Client, kalends.Client],
) -> None:
    one, other = replicas
    view = await held(one, "hold-of-ada")
    assert (await other.release(view.id)).state == "cancelled"
    with pytest.raises(kalends.Conflict):
        await one.lock(view.id)
    assert (await one.show(view.id)).state == "cancelled"


async def test_a_hold_that_changed_replicas_is_locked_through_either(
    replicas: tuple[kalends.Client, kalends.Client],
) -> None:
    one, other = replicas
    view = await held(one, "hold-of-ada")
    assert (await held(other, "hold-of-ada")).state == "held"
    assert (await other.lock(view.id)).state == "reserved"
    assert (await one.lock(view.id)).state == "reserved"
    assert (await one.cancel(view.id)).state == "cancelled"
