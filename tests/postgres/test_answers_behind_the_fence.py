"""A site that was taken over says nothing that others rely on, and gives no command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from kalends.calendars import ResourceCalendar, open_access
from kalends.contract import messages as m
from kalends.core.identifiers import request_id
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo
from kalends.resource_servers.journal.postgres import site_journal
from kalends.resource_servers.participation.effects import Send
from kalends.resource_servers.service import SiteEngine
from kalends.servers.restored_participant import site_machine
from kalends.stores.group_commit import Committed, StoreFailed
from kalends.stores.postgres import batches
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.session import WriterSession
from kalends.stores.postgres.sole_owner import LEASE_S, begin
from tests.postgres.test_site_journal import storage_at

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

START: Final = 1_700_000_040
NOW: Final = Moment(1_000, START * 1000 - 60_000)
ANNA: Final = Principal("anna")
LOOK: Final = m.Query(query_id=1, principal=ANNA, wants=())
HOLD: Final = m.Visit(
    rid=request_id(NOW.wall_ms, 1), att=1, stamp=1, mode="hold", principal=ANNA,
    wants=(m.Want("sdsc/sp2", START, START + 60, 1),),
    parts=(m.Part("sdsc", "http://127.0.0.1:1"),), need=1, secret="s" * 22, hold_ms=1_000,
)  # fmt: skip
"""What is held is not stored."""


class Site:
    """A life of a site, and all that leaves it."""

    def __init__(self, address: Address, journal: site_journal.PostgresJournal) -> None:
        self._address = address
        self.sent: list[Send] = []
        self.failures: list[StoreFailed] = []
        calendar = ResourceCalendar(ResourceInfo(name="sdsc/sp2", capacity=9), open_access())
        participant = site_machine(
            "sdsc", {"sdsc/sp2": calendar}, epoch=journal.epoch, jitter=lambda: 0.0, now=NOW
        )
        self.engine = SiteEngine(
            journal, participant, moment=lambda: NOW, deliver=self.sent.extend,
            set_out=lambda errands, relays: None, provision=lambda provisions, still_ours: None,
            alarmed=lambda text: None, reported=lambda about, text: None,
            failed=self.failures.append,
        )  # fmt: skip

    def kinds(self) -> list[str]:
        return [type(send.message).__name__ for send in self.sent]

    def taken_over(self) -> None:
        """As on a promoted standby, which knows of no locks."""
        session = WriterSession.open(self._address)
        begin(session, "another", [])
        session.close()


@asynccontextmanager
async def serving(address: Address) -> AsyncIterator[Site]:
    committed: list[Committed] = []
    site = Site(address, await storage_at(address).open(committed.append))
    try:
        yield site
    finally:
        await site.engine.close()


def late_by_a_lease(monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    """At its next `looks` at the clock this process has not been running for a lease."""
    left = [LEASE_S] * looks
    monkeypatch.setattr(
        site_journal, "now_s", lambda: batches.now_s() + (left.pop() if left else 0)
    )


def test_what_others_rely_on_leaves_behind_the_fence_and_views_leave_at_once(
    address: Address,
) -> None:
    async def asked() -> None:
        async with serving(address) as site:
            site.engine.receive("npaci", [LOOK])
            site.engine.receive("npaci", [HOLD])
            assert site.kinds() == ["View"]
            await site.engine.settle()
            assert site.kinds() == ["View", "Visited"]

    asyncio.run(asked())


def test_an_answer_without_facts_never_leaves_a_site_that_was_taken_over(address: Address) -> None:
    async def asked() -> None:
        async with serving(address) as site:
            site.taken_over()
            site.engine.receive("npaci", [HOLD])
            with pytest.raises(StoreFailed, match="taken over"):
                await site.engine.settle()
            assert (site.kinds(), len(site.failures)) == ([], 1)

    asyncio.run(asked())


def test_an_operator_hears_of_no_success_from_a_site_that_was_taken_over(address: Address) -> None:
    async def asked() -> None:
        async with serving(address) as site:
            site.taken_over()
            with pytest.raises(StoreFailed, match="taken over"):
                await site.engine.called(lambda participant, now: "nothing to do")

    asyncio.run(asked())


def test_a_command_that_comes_late_waits_for_the_fence_and_keeps_its_turn(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def commanded() -> None:
        async with serving(address) as site:
            await site.engine.settle()
            begun: list[str] = []
            late_by_a_lease(monkeypatch, looks=1)
            site.engine.when_ours(lambda: begun.append("start"))
            site.engine.when_ours(lambda: begun.append("kill"))
            assert begun == []
            await site.engine.settle()
            assert begun == ["start", "kill"]
            late_by_a_lease(monkeypatch, looks=2)
            await site.engine.still_ours()

    asyncio.run(commanded())


def test_a_command_that_comes_after_a_take_over_never_begins(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def commanded() -> None:
        async with serving(address) as site:
            await site.engine.settle()
            site.taken_over()
            begun: list[str] = []
            late_by_a_lease(monkeypatch, looks=2)
            site.engine.when_ours(lambda: begun.append("start"))
            with pytest.raises(StoreFailed, match="taken over"):
                await site.engine.still_ours()
            site.engine.when_ours(lambda: begun.append("another"))
            assert begun == []
            with pytest.raises(StoreFailed, match="taken over"):
                await site.engine.still_ours()

    asyncio.run(commanded())
