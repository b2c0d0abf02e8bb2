"""Persist before send: no message of a step leaves before its facts, and all earlier ones, are durable."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kalends.calendars import ResourceCalendar, open_access
from kalends.contract import messages as m
from kalends.core.errors import Unavailable
from kalends.core.identifiers import request_id
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo
from kalends.resource_servers.journal.sqlite.site_journal import SqliteJournal
from kalends.resource_servers.journal.sqlite.site_store import SiteStore
from kalends.resource_servers.participation.effects import Relay, RunTask, Send
from kalends.resource_servers.service import SiteEngine
from kalends.servers.restored_participant import site_machine
from kalends.stores.group_commit import Committed, StoreFailed

START = 1_700_000_040
NOW = Moment(1_000, START * 1000 - 60_000)


class Site:
    """An engine on a real store, what it sent, and a hand on its disk."""

    def __init__(self, path: Path) -> None:
        self.store = SiteStore.open(path, "sdsc", sync="off")
        journal = SqliteJournal(self.store, lambda committed: self.committed.append(committed))
        self.sent: list[Send] = []
        self.alarms: list[str] = []
        self.failures: list[StoreFailed] = []
        self.committed: list[Committed] = []
        self.errands: list[RunTask] = []
        self.clock_read_by: set[int] = set()
        calendar = ResourceCalendar(ResourceInfo(name="sdsc/sp2", capacity=9), open_access())
        participant = site_machine(
            "sdsc", {"sdsc/sp2": calendar},
            epoch=self.store.epoch, jitter=lambda: 0.0, now=NOW,
        )  # fmt: skip
        self.engine = SiteEngine(
            journal, participant,
            moment=self.moment, deliver=self.sent.extend, set_out=self.set_out,
            provision=lambda provisions, still_ours: None, alarmed=self.alarms.append,
            reported=lambda about, text: None,
            failed=self.failures.append,
        )  # fmt: skip
        self.other = sqlite3.connect(path, isolation_level=None)

    def moment(self) -> Moment:
        self.clock_read_by.add(threading.get_ident())
        return NOW

    def set_out(self, errands: Sequence[RunTask], relays: Sequence[Relay]) -> None:
        self.errands += errands

    def block_disk(self) -> None:
        """Another connection holds the lock for writing: commits wait."""
        self.other.execute("begin immediate")

    def release_disk(self) -> None:
        self.other.execute("rollback")

    def kinds(self) -> list[str]:
        return [type(send.message).__name__ for send in self.sent]


@asynccontextmanager
async def running(tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(tmp_path / "sdsc.sqlite")
    try:
        yield site
    finally:
        if site.other.in_transaction:
            site.release_disk()
        await site.engine.close()
        site.other.close()


def visit(number: int, mode: str = "vote") -> m.Visit:
    return m.Visit(
        rid=request_id(NOW.wall_ms, number), att=1, stamp=1,
        mode=mode,  # type: ignore[arg-type]  # one of its two texts
        principal=Principal("anna"), wants=(m.Want("sdsc/sp2", START, START + 60, 1),),
        parts=(m.Part("sdsc", "http://127.0.0.1:1"),), need=1, secret="s" * 22, hold_ms=1_000,
    )  # fmt: skip


QUERY = m.Query(query_id=1, principal=Principal("a"), wants=())


async def turns() -> None:
    for _ in range(1_000):
        await asyncio.sleep(0)


async def test_a_vote_leaves_only_when_it_is_durable(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        site.block_disk()
        expected = site.engine.receive("npaci", [visit(1), visit(2)])
        await turns()
        assert site.sent == []
        site.release_disk()
        await site.engine.settle()
        assert site.sent == list(expected)
        assert [send.message.vote for send in site.sent] == ["yes", "yes"]  # type: ignore[attr-defined]  # both are Visited
        assert site.other.execute("select count(*) from stake").fetchone() == (2,)


async def test_a_step_without_facts_waits_behind_facts_and_otherwise_for_nothing(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as site:
        site.engine.receive("npaci", [QUERY])
        assert site.kinds() == ["View"]
        site.block_disk()
        site.engine.receive("npaci", [visit(1)])
        site.engine.receive("npaci", [QUERY])
        site.engine.receive("npaci", [visit(2, "hold")])
        await turns()
        assert site.kinds() == ["View"]
        site.release_disk()
        await site.engine.settle()
        assert site.kinds() == ["View", "Visited", "View", "Visited"]


async def test_steps_that_wait_share_a_transaction(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        site.block_disk()
        for number in range(5):
            site.engine.receive("npaci", [visit(number)])
        site.release_disk()
        await site.engine.settle()
        assert len(site.committed) <= 2
        assert sum(each.operations for each in site.committed) == 5


async def test_the_clock_is_read_on_the_event_loop_only(tmp_path: Path) -> None:
    """A watched clock remembers what it was told: two threads in it broke the store's writer."""
    async with running(tmp_path) as site:
        site.engine.receive("npaci", [visit(1)])
        await site.engine.settle()
        assert site.committed
        assert site.clock_read_by == {threading.get_ident()}
        assert site.other.execute("select at_ms from journal").fetchall() == [(NOW.wall_ms,)]


async def test_when_the_store_fails_nothing_leaves_and_nothing_more_is_taken(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as site:
        site.store.file.connection.execute("pragma query_only = on")
        site.engine.receive("npaci", [visit(1)])
        site.engine.receive("npaci", [QUERY])
        with pytest.raises(StoreFailed):
            await site.engine.settle()
        assert site.sent == []
        assert len(site.failures) == 1
        with pytest.raises(Unavailable):
            site.engine.receive("npaci", [QUERY])
        assert site.sent == []


async def test_a_participant_that_raises_is_given_up_with_everything_in_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as site:
        receive = site.engine.participant.receive

        def breaking(source: str, message: m.Message, now: Moment) -> None:
            receive(source, message, now)
            if isinstance(message, m.Query):
                raise AssertionError("a bug of ours")

        monkeypatch.setattr(site.engine.participant, "receive", breaking)
        with pytest.raises(Unavailable):
            site.engine.receive("npaci", [visit(1), QUERY])
        await site.engine.settle()
        assert site.sent == []
        assert site.other.execute("select count(*) from stake").fetchone() == (0,)
        assert "a bug of ours" in str(site.failures[0])


async def test_a_request_that_breaks_a_step_is_left_alone_in_the_next_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one senseless message, repeated, would end one life of the site after the other."""
    poison = visit(2)
    left_alone: set[str] = set()

    def break_at_poison(site: Site) -> None:
        site.engine.participant.left_alone = left_alone
        take_in = site.engine.participant._take_in

        def breaking(source: str, message: m.Message, now: Moment) -> None:
            assert message != poison, "a bug of ours"
            take_in(source, message, now)

        monkeypatch.setattr(site.engine.participant, "_take_in", breaking)

    async with running(tmp_path) as site:
        break_at_poison(site)
        with pytest.raises(Unavailable):
            site.engine.receive("npaci", [visit(1), poison])
        assert any(poison.rid in alarm for alarm in site.alarms)
    async with running(tmp_path) as site:
        break_at_poison(site)
        site.engine.receive("npaci", [poison, visit(1)])
        await site.engine.settle()
        assert site.failures == []
        assert [send.message.rid for send in site.sent] == [visit(1).rid]  # type: ignore[attr-defined]


async def test_alarms_are_heard_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as site:
        decide = m.Decide(rid=request_id(1, 1), att=1, outcome="commit", chosen={"sdsc": (1,)})
        sends: Sequence[Send] = site.engine.receive("npaci", [decide])
        assert [type(send.message) for send in sends] == [m.Known]
        assert len(site.alarms) == 1
