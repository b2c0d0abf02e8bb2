"""A register that answers late: what it says counts for the incarnation that has asked and for no other, and
who is cancelled while it is asked leaves nothing half done.
"""

from __future__ import annotations

import asyncio
import io
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import structlog
from msgspec import structs
from tests.support.late_store import Gate, LateStore

from kalends.broker.coordination.record.decision_record import Spec
from kalends.broker.desk.priorities import PriorityGrants
from kalends.broker.desk.request_commands import NewRequest, RequestCommands
from kalends.broker.desk.request_queries import Records
from kalends.broker.desk.script_checks import ScriptChecks
from kalends.broker.desk.scripts import Scripts
from kalends.broker.metrics import Measures
from kalends.broker.planning.directory import Directory
from kalends.broker.reconciliation.recognition import mark_for
from kalends.broker.register.writes import (
    KeepAddress,
    LeaseRenewal,
    MadeGood,
    NoticeAddress,
    PostNotice,
    PutBack,
)
from kalends.broker.replica import heartbeat
from kalends.broker.replica.replica import Incarnation
from kalends.broker.service import BrokerService
from kalends.broker.sharing.shared_requests import SharedRequests
from kalends.contract import calls
from kalends.contract import messages as m
from kalends.core.errors import NotFound, Problem, Unavailable
from kalends.core.identifiers import request_id
from kalends.core.intervals import Moment
from kalends.core.language import parse_request
from kalends.core.principals import Principal
from kalends.notices.request_notice import RequestNotice
from kalends.serving.alarms import Alarms
from kalends.serving.auth.callers import Caller
from kalends.serving.clocks import MomentClock, moment
from kalends.serving.configuration import AgentsConfiguration, BrokerNotices
from kalends.serving.metrics import Metrics

WAIT_S = 20.0
ANNA = Caller(Principal("anna", ()), frozenset({"book"}), "")
KEY = "the-key-of-it"
WHEN = 4_000_000_000
NOBODY = request_id(1_800_000_000_000, 1)


class Desk(NamedTuple):
    service: BrokerService
    records: Records
    commands: RequestCommands
    gate: Gate

    def book(self, key: str = KEY, agent: str = "") -> asyncio.Task[calls.RequestView]:
        """No site is connected: it is refused once it has begun."""
        request = parse_request("here/one", duration="1h", at=WHEN, now_s=WHEN - 1, zone="UTC")
        request = structs.replace(request, agent=agent)
        body = calls.Book(request=request, key=key, wait_ms=0)
        return asyncio.create_task(self.commands.book(ANNA, body))

    async def begun(self, key: str = KEY) -> bool:
        """Whether the register has a request of this key."""
        return await self.records.of_key("anna", key) is not None

    async def fail(self) -> None:
        """The incarnation ends, and the next one has begun."""
        self.service.replica.fail(ValueError("the disk is full"))
        await self.next()

    async def next(self) -> Incarnation:
        """The next incarnation, once it has begun."""
        begun = asyncio.Event()
        begin = self.service.replica.begin

        def begins(current: Incarnation) -> None:
            begin(current)
            begun.set()

        self.service.replica.begin = begins  # type: ignore[method-assign]
        if self.service.replica.current is None:
            await begun.wait()
        self.service.replica.begin = begin  # type: ignore[method-assign]
        return self.service.replica.in_use()


@asynccontextmanager
async def opened(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    sites: tuple[str, ...] = (),
    notices: BrokerNotices | None = None,
) -> AsyncIterator[Desk]:
    gate = Gate()
    monkeypatch.setattr(LateStore, "late", staticmethod(gate))
    known = Directory({site: f"http://{site}" for site in sites})
    logger: Any = structlog.wrap_logger(
        structlog.WriteLogger(io.StringIO()),
        processors=[structlog.processors.format_exc_info, structlog.processors.JSONRenderer()],
    )
    metrics = Metrics(role="broker", name="npaci", version="1")
    measures = Measures(metrics, known, dict)
    service = BrokerService(
        replica="npaci-1",
        coords=(),
        open_store=lambda: LateStore.open(directory / "npaci.sqlite", "npaci", measures.committed),
        directory=known,
        open_per_user_max=10,
        notices=notices,
        alarms=Alarms(logger, measures.alarms.inc),
        logger=logger,
        metrics=metrics,
        measures=measures,
    )
    records = Records(
        service, MomentClock(moment), lambda record: (), SharedRequests(service).right
    )
    scripts = Scripts(service, ScriptChecks(AgentsConfiguration(), logger, print))
    commands = RequestCommands(
        service, records, scripts, PriorityGrants(), lambda body: None, lambda record: True
    )
    await service.start()
    try:
        async with asyncio.timeout(WAIT_S):
            yield Desk(service, records, commands, gate)
    finally:
        await gate.open()
        await service.stop(0.0)


async def test_what_an_incarnation_has_read_that_ended_meanwhile_begins_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, monkeypatch) as desk:
        desk.gate.names = {"by_key"}
        booking = desk.book()
        await desk.gate.until_asked("by_key")
        await desk.fail()
        await desk.gate.open()
        with pytest.raises(Unavailable, match="store cannot be used now"):
            await booking
        assert not await desk.begun()
        assert not desk.service.cases


async def test_what_was_asked_for_in_an_earlier_incarnation_is_not_begun_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, monkeypatch) as desk:
        request = parse_request("here/one", duration="1h", at=WHEN, now_s=WHEN - 1, zone="UTC")

        async def asked() -> NewRequest:
            await desk.fail()
            return NewRequest(Spec(request))

        until_s = asyncio.get_running_loop().time() + WAIT_S
        with pytest.raises(Unavailable, match="store cannot be used now"):
            await desk.commands.decided(ANNA, KEY, "digest", until_s, asked)
        assert not await desk.begun()


@pytest.mark.parametrize("late", ["by_key", "script"])
async def test_a_booking_that_is_cancelled_while_the_register_is_asked_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    async with opened(tmp_path, monkeypatch) as desk:
        desk.gate.names = {late}
        booking = desk.book(agent="mine" if late == "script" else "")
        await desk.gate.until_asked(late)
        booking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await booking
        await desk.gate.open()
        assert not desk.service.cases
        assert not desk.service.tickets._open
        assert not await desk.begun()
        assert (await desk.book()).state == "failed"


async def test_a_booking_that_is_cancelled_after_it_has_begun_is_found_by_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second look at its key is the one after its answer did not come in time."""
    async with opened(tmp_path, monkeypatch) as desk:
        desk.gate.names = {"by_key"}
        first = desk.book()
        await desk.gate.until_asked("by_key")
        await desk.gate.open()
        await first
        desk.gate.names = {"by_key"}
        again = desk.book()
        await desk.gate.until_asked("by_key", 2)
        again.cancel()
        await asyncio.gather(again, return_exceptions=True)
        await desk.gate.open()
        assert (await desk.book()).id == first.result().id
        assert not desk.service.tickets._open


async def test_nothing_is_said_to_be_missing_that_was_asked_for_before_the_register_was_certain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been recovered from a site between the question and the answer."""
    async with opened(tmp_path, monkeypatch, sites=("here",)) as desk:
        desk.gate.names = {"reservation", "by_key", "ids"}
        shown = asyncio.create_task(desk.records.show(ANNA, calls.ById(id=NOBODY)))
        found = asyncio.create_task(desk.records.by_key(ANNA, calls.ByKey(key=KEY)))
        meant = asyncio.create_task(desk.records.ids(ANNA, calls.FindIds(part=NOBODY[-8:])))
        for name in ("reservation", "by_key", "ids"):
            await desk.gate.until_asked(name)
        await desk.service.site_said("here", (m.Known(),))
        assert desk.service.replica.doubt() is None
        await desk.gate.open()
        for each in (shown, found, meant):
            with pytest.raises(Unavailable, match="have not yet confirmed its store"):
                await each
        with pytest.raises(NotFound):
            await desk.records.show(ANNA, calls.ById(id=NOBODY))


async def test_what_a_site_says_is_handled_in_order_though_the_register_is_asked_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, monkeypatch, sites=("here",)) as desk:
        desk.gate.names = {"look"}
        seen = desk.gate.asked["look"]
        hello = m.Hello(site="here", epoch=1, resources=())
        saying = asyncio.create_task(desk.service.site_said("here", (m.Known(), hello)))
        await desk.gate.until_asked("look", seen + 1)
        assert not desk.service.directory.is_up("here")
        await desk.gate.open()
        await saying
        assert desk.service.directory.is_up("here")


async def test_what_a_site_remembers_is_let_go_where_the_incarnation_ends_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next one would end, too, and would be taken for one that was put back."""
    async with opened(tmp_path, monkeypatch, sites=("here",)) as desk:
        secret = desk.service.store.secret
        known = m.Known(marks=(mark_for(secret, "here", "f" * 32, 9),))
        desk.gate.names = {"look"}
        seen = desk.gate.asked["look"]
        saying = asyncio.create_task(desk.service.site_said("here", (known,)))
        await desk.gate.until_asked("look", seen + 1)
        desk.service.replica.fail(ValueError("the disk is full"))
        await desk.gate.open()
        await saying
        current = await desk.next()
        outlook = await current.store.look()
        assert not outlook.put_back
        await desk.service.site_said("here", (known,))
        assert desk.service.replica.current is not current, "it was put back indeed"


async def test_no_site_is_welcomed_by_an_incarnation_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, monkeypatch, sites=("here",)) as desk:
        desk.gate.names = {"look"}
        seen = desk.gate.asked["look"]
        welcome = asyncio.create_task(desk.service.welcome("here"))
        await desk.gate.until_asked("look", seen + 1)
        desk.service.replica.fail(ValueError("the disk is full"))
        await desk.gate.open()
        with pytest.raises(Unavailable):
            await welcome


async def test_rows_that_come_after_the_end_of_their_incarnation_are_compared_with_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, monkeypatch, sites=("here",)) as desk:
        service = desk.service
        service.directory.greet(m.Hello(site="here", epoch=1, resources=()))
        comparing = asyncio.create_task(service.comparisons.reconcile(WAIT_S, go_on=False))
        await asyncio.sleep(0)
        desk.gate.names = {"compared"}
        page = asyncio.create_task(service.site_said("here", (m.Compared(),)))
        await desk.gate.until_asked("compared")
        await desk.fail()
        await desk.gate.open()
        await page
        service.comparisons.lost("here")
        assert (await comparing).sites == ()
        await asyncio.gather(page, return_exceptions=True)


@pytest.mark.parametrize("late", ["look", "left_behind"])
async def test_a_beat_whose_incarnation_ends_while_it_asks_harms_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_EVERY_S", 0.001)
    async with opened(tmp_path, monkeypatch) as desk:
        desk.gate.names = {late}
        seen = desk.gate.asked[late]
        await desk.gate.until_asked(late, seen + 1)
        desk.service.replica.fail(ValueError("the disk is full"))
        await desk.gate.open()
        current = await desk.next()
        beats = desk.gate.asked[late]
        await desk.gate.until_asked(late, beats + 3)
        assert desk.service.replica.current is current
        assert desk.service.alarms.problems == ()


class FailingWing:
    """Each of its looks fails, once it may end."""

    def __init__(self) -> None:
        self.looks = asyncio.Event()
        self.may_end = asyncio.Event()

    async def beat(self, current: Incarnation, now: Moment) -> Callable[[Moment], None]:
        self.looks.set()
        await self.may_end.wait()
        raise Unavailable("the store cannot be read now")


async def test_leases_are_renewed_while_a_wing_looks_and_a_look_that_fails_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_EVERY_S", 0.001)
    async with opened(tmp_path, monkeypatch) as desk:
        current, wing = desk.service.replica.in_use(), FailingWing()
        monkeypatch.setattr(desk.service, "_wings", (wing,))
        await wing.looks.wait()
        await desk.gate.until_asked("look", desk.gate.asked["look"] + 3)
        wing.looks.clear()
        wing.may_end.set()
        await wing.looks.wait()
        assert desk.service.replica.current is current
        assert desk.service.alarms.problems == ()


async def test_a_register_that_is_made_good_while_a_beat_asks_for_it_is_not_put_back_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_EVERY_S", 0.001)
    async with opened(tmp_path, monkeypatch) as desk:
        current = desk.service.replica.in_use()
        current.recognition.put_back = True
        await current.store.writer.run((PutBack(),))
        desk.gate.names = {"look"}
        seen = desk.gate.asked["look"]
        await desk.gate.until_asked("look", seen + 1)
        lost = Problem(type="t", title="t", status=503, detail="d", code="unavailable")
        await current.store.writer.run((MadeGood((), lost),))
        current.recognition.put_back = False
        beats = desk.gate.asked["look"]
        await desk.gate.open()
        await desk.gate.until_asked("look", beats + 3)
        assert desk.service.replica.current is current
        assert not current.recognition.put_back


async def test_stamps_begin_above_all_that_the_start_before_may_give_out_until_it_is_retired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, monkeypatch) as desk:
        before = desk.service.replica.in_use().coordinator.identity.owner
        ahead = desk.service.moment().wall_ms + 60_000

        async def opening() -> LateStore:
            store = await LateStore.open(tmp_path / "npaci.sqlite", "npaci", lambda committed: None)
            run = store.writer.run

            async def after_a_beat(writes: Any) -> Any:
                monkeypatch.setattr(store.writer, "run", run)
                await run([LeaseRenewal(before, ahead)])
                return await run(writes)

            monkeypatch.setattr(store.writer, "run", after_a_beat)
            return store

        monkeypatch.setattr(desk.service, "_open_store", opening)
        await desk.fail()
        assert desk.service.logical_clock.value >= ahead


async def test_an_incarnation_that_is_cancelled_while_it_begins_closes_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[LateStore] = []

    async def close(store: LateStore) -> None:
        closed.append(store)
        await super(LateStore, store).close()

    async with opened(tmp_path, monkeypatch) as desk:
        monkeypatch.setattr(LateStore, "close", close)
        desk.gate.names = {"look"}
        seen = desk.gate.asked["look"]
        beginning = asyncio.create_task(desk.service._begin())
        await desk.gate.until_asked("look", seen + 1)
        beginning.cancel()
        await asyncio.gather(beginning, return_exceptions=True)
        assert len(closed) == 1


async def test_a_slow_read_that_is_cancelled_leaves_its_connection_to_nobody_before_it_has_ended(
    tmp_path: Path,
) -> None:
    store = await LateStore.open(tmp_path / "npaci.sqlite", "npaci", lambda committed: None)
    reading, released, now = asyncio.Event(), asyncio.Event(), 0
    most = 0
    loop = asyncio.get_running_loop()

    def slowly(connection: object) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        loop.call_soon_threadsafe(reading.set)
        asyncio.run_coroutine_threadsafe(released.wait(), loop).result()
        now -= 1

    read: Callable[..., Any] = store._read_slowly
    first = asyncio.create_task(read(slowly))
    await reading.wait()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    second = asyncio.create_task(read(slowly))
    await asyncio.sleep(0.01)
    released.set()
    await second
    await store.close()
    assert most == 1


async def test_deliveries_that_become_durable_while_what_there_is_is_read_are_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This replica makes deliveries, believes for a moment that another one is to deliver, and goes on."""
    rules = BrokerNotices(smtp="127.0.0.1:9", sender="k@example.org", address="{user}@example.org")
    async with opened(tmp_path, monkeypatch, notices=rules) as desk:
        writer, delivery = desk.service.store.writer, desk.service.notices
        address = NoticeAddress("anna", "", "UTC", 1)
        notice = RequestNotice(id="test-1", user="anna", occasion="test", at_s=1)
        await writer.run((KeepAddress(address, 8), PostNotice(notice)))
        desk.gate.names = {"waiting_notices"}
        delivery.beat()
        await desk.gate.until_asked("waiting_notices")
        other = sqlite3.connect(tmp_path / "npaci.sqlite", isolation_level=None)
        with closing(other):
            other.execute("begin immediate")
            await desk.gate.open()
            await asyncio.sleep(0.05)
            assert delivery._making
            delivery.end_life()
            desk.gate.names = {"deliveries"}
            delivery.beat()
            await asyncio.sleep(0.05)
            other.execute("commit")
        await writer.run(())
        await desk.gate.until_asked("deliveries")
        await desk.gate.open()
        await asyncio.sleep(0.05)
        assert delivery.notifier._waiting() == 1
