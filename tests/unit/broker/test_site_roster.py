"""Sites that leave a broker are kept until nothing is booked there; a name is that of one key."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs
from tests.support.register_writes import RIDS, T0, Maker

from kalends.broker.coordination.record.decision_record import Begin, Commit, Finish, encode_record
from kalends.broker.planning.directory import Directory
from kalends.broker.planning.leaving_sites import check_change, check_known
from kalends.broker.register.sqlite.broker_store import BrokerStore
from kalends.broker.register.writes import JoinSite, KeepCard, LeaveSite, ListedSite, UnlistSite
from kalends.broker.sites.departures import LOOK_AGAIN_S, departure_of
from kalends.broker.sites.reached_sites import ReachedSite
from kalends.broker.sites.roster import SiteRoster
from kalends.contract.messages import Want
from kalends.core.errors import NotFound, Unavailable
from kalends.core.intervals import Moment
from kalends.serving.logs import get_logger

END = T0 + 3_600


def listed(state: Any = "joined", key: str = "k", **changes: Any) -> ListedSite:
    site = ListedSite("east", key, "http://east", "", True, 1, state, T0, "ada")
    return site._replace(**changes)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[BrokerStore]:
    opened = await BrokerStore.open(tmp_path / "npaci.sqlite", "npaci", lambda committed: None)
    yield opened
    await opened.close()


class Room:
    """A roster on a store, whose clock the test moves."""

    def __init__(self, store: BrokerStore) -> None:
        self.store = store
        self.directory = Directory({})
        self.watched: list[str] = []
        self.roster = SiteRoster(
            (), self.directory, watch=self.watched.append, logger=get_logger(role="tests", name="roster")
        )  # fmt: skip

    async def beat(self, now_s: int) -> list[str]:
        """The sites in use after a beat at this time."""
        current: Any = SimpleNamespace(store=self.store)
        await self.roster.beat(current, Moment(0, now_s * 1_000))
        return sorted(self.directory.sites)

    async def book(self, number: int, end: int) -> None:
        """A request is booked at the site, and all sites know it."""
        from random import Random

        record = structs.replace(
            Maker(Random(1)).record(RIDS[5]), rid=RIDS[number], reservation=RIDS[number],
            key=f"key-{number}", state="open", att=1, chosen={"east": (1,)}, replaces="",
            wants=(Want("east/m", end - 600, end, 1),), spec=structs.replace(
                Maker(Random(1)).record(RIDS[5]).spec, what=None, script=""
            ),
        )  # fmt: skip
        done = structs.replace(record, state="commit")
        writes = (
            Begin(record),
            Commit(record.rid, 1, "", encode_record(done)),
            Finish(record.rid, "commit"),
        )
        await self.store.writer.run(writes)


async def test_a_site_that_leaves_is_forgotten_once_all_that_was_booked_there_has_ended(
    store: BrokerStore,
) -> None:
    room = Room(store)
    await store.writer.run((JoinSite(listed()),))
    assert await room.beat(T0) == ["east"]
    await room.book(5, END)
    await store.writer.run((LeaveSite(listed("leaving", until=T0 + LOOK_AGAIN_S)),))
    assert await room.beat(T0) == ["east"]
    assert room.directory.leaving() == {"east"}
    # Another replica has not known yet that it leaves, and has booked there.
    await room.book(6, END + 600)
    assert await room.beat(T0 + LOOK_AGAIN_S) == ["east"]
    (site,) = await store.listed_sites()
    assert site.until == END + 600
    assert await room.beat(END + 599) == ["east"]
    assert await room.beat(END + 600) == []
    assert await store.listed_sites() == []


async def test_a_site_that_another_replica_has_added_is_in_use_after_a_beat_and_its_way_may_change(
    store: BrokerStore,
) -> None:
    room = Room(store)
    assert await room.beat(T0) == []
    await store.writer.run((KeepCard(listed("announced")),))
    assert await room.beat(T0) == []
    await store.writer.run((JoinSite(listed()),))
    assert await room.beat(T0) == room.watched == ["east"]
    await store.writer.run((KeepCard(listed("announced", made_at=2, url="http://moved")),))
    await room.beat(T0)
    assert room.directory.sites["east"].url == "http://moved"
    assert room.directory.peer_urls == {"east": "http://moved"}


async def test_a_site_out_of_the_configuration_leaves_and_comes_back_with_it(
    store: BrokerStore,
) -> None:
    room, site = Room(store), ReachedSite("east", "http://east", None)
    room.roster.configure([site])
    await room.book(5, END)
    room.roster.configure([])
    assert room.directory.leaving() == {"east"}
    await room.beat(T0)
    assert [each.state for each in await store.listed_sites()] == ["leaving"]
    after_a_restart = Room(store)
    assert await after_a_restart.beat(T0) == ["east"]
    room.roster.configure([site])
    assert await room.beat(T0) == ["east"]
    assert room.directory.leaving() == set()


async def test_a_name_is_that_of_the_first_key_and_old_cards_change_nothing(
    store: BrokerStore,
) -> None:
    async def told(*writes: Any) -> list[Any]:
        return [*await store.writer.run(writes)]

    by_another = listed("announced", "another")
    assert await told(KeepCard(listed("announced")), KeepCard(by_another)) == [1, 1]
    assert await told(JoinSite(listed(made_at=5))) == [1]
    assert [each.key for each in await store.listed_sites()] == ["k"]
    assert await told(JoinSite(listed(key="another"))) == [0]
    assert await told(KeepCard(listed("announced", made_at=4)), JoinSite(listed())) == [-1, -1]
    assert await told(LeaveSite(listed("leaving", "another"))) == [0]
    assert await told(UnlistSite("east", "k", "announced")) == [0]
    flood = [KeepCard(listed("announced", str(n), name=f"s{n}")) for n in range(6)]
    assert await told(*flood) == [1, 1, 1, 1, 0, 0]


def test_what_cannot_be_read_keeps_a_site_and_other_sites_do_not() -> None:
    unreadable: Any = SimpleNamespace(rid="r", state="commit")
    assert departure_of("east", [unreadable], T0) == (1, T0 + LOOK_AGAIN_S)
    assert departure_of("east", [], T0) == (0, T0)


def test_a_reservation_at_a_site_that_leaves_can_only_become_less() -> None:
    kept = Want("east/m", T0, END, 4)
    check_change([Want("east/m", T0, END - 60, 2)], [kept], {"east"})
    for more in (
        Want("east/m", T0, END + 60, 4),
        Want("east/m", T0, END, 5),
        Want("east/m", T0 - 1, END, 1),
    ):
        with pytest.raises(NotFound, match="leaving"):
            check_change([more], [kept], {"east"})
        check_change([more], [kept], {"west"})


async def test_a_reservation_at_a_site_that_a_replica_does_not_use_yet_can_be_changed_a_beat_later(
    store: BrokerStore,
) -> None:
    room, booked = Room(store), [Want("east/m", T0, END, 4)]
    await store.writer.run((JoinSite(listed()),))
    with pytest.raises(Unavailable, match="east has just joined") as refused:
        check_known(booked, room.directory.sites)
    assert refused.value.retry_after_s
    await room.beat(T0)
    check_known(booked, room.directory.sites)


async def test_a_register_from_before_sites_could_join_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "npaci.sqlite"
    await (await BrokerStore.open(path, "npaci", lambda committed: None)).close()
    with sqlite3.connect(path) as connection:
        for what in (
            "table listed_site",
            "table feed",
            "table share",
            "index request_begins",
            "index notice_remind",
        ):
            connection.execute(f"drop {what}")
        connection.execute("alter table request drop column begins")
        for column in ("remind_s", "reminded_at"):
            connection.execute(f"alter table notice_address drop column {column}")
        connection.execute("pragma user_version = 1")
    connection.close()
    store = await BrokerStore.open(path, "npaci", lambda committed: None)
    assert await store.listed_sites() == []
    await store.close()
