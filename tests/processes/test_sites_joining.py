"""Owners join and leave a broker that runs: nothing is restarted, and nothing that was promised is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

import kalends
from kalends.serving.auth.keys import load_private_key, write_key_pair
from kalends.serving.auth.public_keys import key_id
from kalends.serving.auth.site_cards import sign_card
from tests.support.ports import free_urls

from .customers import base_now_s
from .facility import GRAIN_S, Facility, broker_text, connected, make_facility, site_text, write
from .load import faults, load
from .servers import Server, running, until

pytestmark = pytest.mark.xdist_group("one-at-a-time")


class Newcomer(NamedTuple):
    """A site that no broker knows, and its key."""

    server: Server
    key: Path

    @property
    def key_id(self) -> str:
        return key_id(load_private_key(self.key).public_key())

    def card(self, url: str = "", *, name: str = "", key: Path | None = None) -> str:
        return sign_card(
            load_private_key(key or self.key), name=name or self.server.name,
            url=url or self.server.url, ca="", passes=True, now_s=int(time.time()),
        )  # fmt: skip


def newcomer(directory: Path, name: str = "newcomer") -> Newcomer:
    (url,) = free_urls(1)
    server = Server(name, write(directory / f"{name}.toml", site_text(name, url)), url)
    key = directory / f"{name}.key"
    write_key_pair(key)
    return Newcomer(server, key)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[tuple[kalends.Client, Facility, Newcomer]]:
    """A running broker with one site, and a newcomer that runs."""
    facility, joins = make_facility(tmp_path, sites=1, replicas=1), newcomer(tmp_path)
    async with (
        running(*facility.servers, joins.server),
        kalends.connect(facility.brokers[0].url, user="ada", zone="UTC") as client,
    ):
        await connected(facility)
        yield client, facility, joins


async def up(client: kalends.Client, site: str) -> None:
    async def is_up() -> bool:
        return any(each.site == site and each.up for each in await client.broker_sites())

    await until(is_up, f"{site} is connected", explain=lambda: site)


async def books(client: kalends.Client, site: str, key: str, at: int) -> str:
    """Book at `site`, and return the id."""
    terms = f"{site}/cluster:2"
    return (await client.book(terms, duration=GRAIN_S, at=at, key=key)).id


async def test_an_owner_joins_under_load_and_is_booked_by_every_replica_and_after_a_restart(
    tmp_path: Path,
) -> None:
    facility, joins = make_facility(tmp_path, sites=2, replicas=2), newcomer(tmp_path)
    first, second = facility.brokers
    at = base_now_s()
    async with (
        running(*facility.servers, joins.server),
        kalends.connect(first.url, user="ada", zone="UTC") as one,
        kalends.connect(second.url, user="ada", zone="UTC") as other,
    ):
        await connected(facility)
        async with load(facility) as at_work:
            await at_work.more(1)
            announced = await one.announce_site("newcomer", joins.card())
            assert (announced.state, announced.key) == ("announced", joins.key_id)
            assert "newcomer" not in {each.site for each in (await one.resources()).sites}
            joined = await one.add_site("newcomer", key=joins.key_id)
            assert (joined.state, joined.named_by) == ("joined", "ada")
            await up(one, "newcomer")
            await up(other, "newcomer")
            booked = [await books(one, "newcomer", "key-of-one", at)]
            booked.append(await books(other, "newcomer", "key-of-other", at))
            await at_work.more(1)
            everywhere = facility._replace(sites=[*facility.sites, joins.server])
        mine = {each.id for each in await one.list() if each.state == "reserved"}
        assert mine == {*booked}
        for each in booked:
            assert (await one.cancel(each)).state == "cancelled"
        assert await faults(everywhere, at_work) == []
        await first.kill()
        await first.start()
        await up(one, "newcomer")
        await books(one, "newcomer", "key-of-again", at)


async def test_a_site_that_leaves_keeps_what_is_booked_and_gets_nothing_new(
    broker: tuple[kalends.Client, Facility, Newcomer],
) -> None:
    client, facility, joins = broker
    at = base_now_s()
    await client.add_site("newcomer", card=joins.card())
    await up(client, "newcomer")
    terms = "newcomer/cluster:2 + site0/cluster:1"
    kept = (await client.book(terms, duration=GRAIN_S, at=at)).id
    gone = await books(client, "newcomer", "key-of-gone", at)
    left = await client.remove_site("newcomer")
    assert (left.state, left.reservations, left.up) == ("leaving", 2, True)
    assert left.until >= at + GRAIN_S
    assert (await client.remove_site("newcomer")).state == "leaving"
    with pytest.raises(kalends.NotFound):
        await books(client, "newcomer", "key-of-late", at)
    server = facility.brokers[0]
    await server.kill()
    await server.start()
    await up(client, "newcomer")
    assert (await client.show(kept)).state == "reserved"
    assert (await client.cancel(gone)).state == "cancelled"
    async with kalends.connect(joins.server.url, user="ada", zone="UTC") as site:
        found = (await site.audit()).claims
        assert {each.id for each in found if each.state == "locked"} == {kept}
    again = await client.add_site("newcomer", card=joins.card())
    assert again.state == "joined"
    await up(client, "newcomer")

    async def is_listed() -> bool:
        return any(each.name == "newcomer/cluster" for each in (await client.resources()).resources)

    await until(is_listed, "it is booked at again")
    await books(client, "newcomer", "key-of-again", at)


async def test_a_site_that_moves_is_found_by_its_next_card_alone(
    broker: tuple[kalends.Client, Facility, Newcomer], tmp_path: Path
) -> None:
    client, _, joins = broker
    await client.add_site("newcomer", card=joins.card())
    await up(client, "newcomer")
    await joins.server.stop()
    (url,) = free_urls(1)
    write(joins.server.configuration, site_text("newcomer", url))
    joins.server.url = url
    async with running(joins.server):
        moved = await client.announce_site("newcomer", joins.card(url))
        assert (moved.state, moved.url) == ("joined", url)
        await up(client, "newcomer")
        await books(client, "newcomer", "key-of-moved", base_now_s())


async def test_what_is_wrong_with_a_card_is_said_and_nothing_is_added(
    broker: tuple[kalends.Client, Facility, Newcomer], tmp_path: Path
) -> None:
    client, facility, joins = broker
    other = newcomer(tmp_path, "impostor")
    with pytest.raises(kalends.InvalidInput, match="is signed by the key"):
        await client.add_site("newcomer", card=joins.card(), key=other.key_id)
    head, payload, _ = joins.card().split(".")
    forged = ".".join((head, payload, joins.card(key=other.key).split(".")[2]))
    with pytest.raises(kalends.InvalidInput, match="has not signed it"):
        await client.add_site("newcomer", card=forged)
    with pytest.raises(kalends.InvalidInput, match="the card of newcomer, not of site9"):
        await client.add_site("site9", card=joins.card())
    with pytest.raises(kalends.InvalidInput, match="it cannot be read"):
        await client.announce_site("newcomer", "card")
    with pytest.raises(kalends.Conflict, match="it is in the configuration"):
        await client.add_site("site0", card=joins.card(name="site0"))
    (nobody,) = free_urls(1)
    with pytest.raises(kalends.Unavailable, match="it cannot be reached"):
        await client.add_site("newcomer", card=joins.card(nobody))
    with pytest.raises(kalends.Unavailable, match="site0"):
        await client.add_site("newcomer", card=joins.card(facility.sites[0].url))
    with pytest.raises(kalends.NotFound, match="was announced here"):
        await client.add_site("newcomer", key=joins.key_id)
    await client.announce_site("newcomer", joins.card(key=other.key))
    with pytest.raises(kalends.InvalidInput, match="any user could have announced"):
        await client.add_site("newcomer")
    with pytest.raises(kalends.NotFound, match="is signed by the key"):
        await client.add_site("newcomer", key=joins.key_id)
    assert [each.site for each in (await client.resources()).sites] == ["site0"]
    await client.add_site("newcomer", card=joins.card())
    with pytest.raises(kalends.Conflict, match="the name newcomer is taken"):
        await client.add_site("newcomer", card=joins.card(key=other.key))
    with pytest.raises(kalends.NotFound):
        await client.remove_site("site8")
    with pytest.raises(kalends.Conflict, match="in the configuration"):
        await client.remove_site("site0")


async def test_a_reload_takes_sites_in_and_lets_others_go_with_what_is_booked_there(
    broker: tuple[kalends.Client, Facility, Newcomer],
) -> None:
    client, facility, joins = broker
    server, site = facility.brokers[0], facility.sites[0]
    at = base_now_s()
    kept = await books(client, "site0", "key-of-kept", at)
    write(server.configuration, broker_text(server.url, {"newcomer": joins.server.url}))
    os.kill(server.pid, signal.SIGHUP)
    await up(client, "newcomer")
    await books(client, "newcomer", "key-of-new", at)

    async def states() -> bool:
        found = {each.site: each.state for each in await client.broker_sites()}
        return found == {"newcomer": "configured", "site0": "leaving"}

    await until(states, "the register lists it as leaving")
    with pytest.raises(kalends.NotFound):
        await books(client, "site0", "key-of-late", at)
    await server.kill()
    await server.start()
    await up(client, "site0")
    assert (await client.cancel(kept)).state == "cancelled"
    async with kalends.connect(site.url, user="ada", zone="UTC") as owner:
        assert [each for each in (await owner.audit()).claims if each.state == "locked"] == []
