"""Maintenance at one real site: a real broker moves the reservation whole, whoever was down meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import kalends
from kalends.contract.calls import RequestView
from kalends.contract.owner_calls import ReclaimView

from .customers import base_now_s
from .facility import GRAIN_S, Facility, connected, make_facility
from .servers import running, until

pytestmark = pytest.mark.xdist_group("one-at-a-time")

TERMS = "site0/cluster:8 + site1/cluster:3"
LENGTH_S = 3 * GRAIN_S


@pytest.fixture
async def facility(tmp_path: Path) -> AsyncIterator[Facility]:
    made = make_facility(tmp_path, sites=2, replicas=1)
    async with running(*made.servers):
        await connected(made)
        yield made


def owner(facility: Facility) -> kalends.Client:
    """The owner of the first site, who asks it directly."""
    return kalends.connect(facility.sites[0].url, user="owner", zone="UTC")


def ada(facility: Facility) -> kalends.Client:
    return kalends.connect(facility.brokers[0].url, user="ada", zone="UTC")


async def moved(facility: Facility, reservation: RequestView) -> RequestView:
    """The reservation once it has left its old time, and its sites have confirmed the new."""
    async with ada(facility) as client:
        found: list[RequestView] = []

        async def is_elsewhere() -> bool:
            found.append(await client.show(reservation.id))
            return found[-1].start != reservation.start and all(
                claim.confirmed for claim in found[-1].claims
            )

        await until(is_elsewhere, "the reservation is moved")
        return found[-1]


async def take_back(facility: Facility, start: int) -> ReclaimView:
    async with owner(facility) as client:
        return await client.reclaim(
            "site0/cluster", at=start, duration=LENGTH_S, reason="a new pump"
        )


async def test_a_reservation_at_two_sites_is_moved_whole_and_its_user_told(
    facility: Facility,
) -> None:
    start = base_now_s() + 60 * GRAIN_S
    async with ada(facility) as client:
        reservation = await client.book(TERMS, duration=LENGTH_S, at=start)
        taken = await take_back(facility, start)
        assert taken.waiting == (reservation.id,)
        now = await moved(facility, reservation)
        assert {(claim.start, claim.end) for claim in now.claims} == {(start - LENGTH_S, start)}
        story = await client.why(reservation.id)
        assert [event.kind for event in story.events] == ["reserved", "reclaimed", "changed"]
        assert "a new pump" in story.events[1].detail
        with pytest.raises(kalends.NoCommonTime) as refused:
            await client.book("site0/cluster", duration=LENGTH_S, at=start)
        assert [(each.code, each.rule) for each in refused.value.refusals] == [
            ("blackout", "reclaim")
        ]
    async with owner(facility) as client:
        (view,) = await client.reclaims()
        assert (view.waiting, view.gone) == ((), (reservation.id,))
        assert (await client.audit()).problems == ()


async def test_a_reclaim_outlives_the_site_and_waits_for_a_broker_that_is_down(
    facility: Facility,
) -> None:
    site, broker = facility.sites[0], facility.brokers[0]
    start = base_now_s() + 60 * GRAIN_S
    async with ada(facility) as client:
        reservation = await client.book(TERMS, duration=LENGTH_S, at=start)
    await broker.kill()
    taken = await take_back(facility, start)
    await site.kill()
    await site.start()
    async with owner(facility) as client:
        assert [each.waiting for each in await client.reclaims()] == [(reservation.id,)]
    await broker.start()
    await connected(facility)
    now = await moved(facility, reservation)
    assert {claim.start for claim in now.claims} == {start - LENGTH_S}
    async with owner(facility) as client:
        await client.end_reclaim(taken.key)
        assert await client.reclaims() == ()
    async with ada(facility) as client:
        again = await client.book("site0/cluster", duration=LENGTH_S, at=start)
        assert again.state == "reserved"
