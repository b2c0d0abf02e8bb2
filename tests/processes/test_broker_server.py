"""A broker as a real process, with real sites: what its users are promised, over crashes too."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import aiohttp
import msgspec
import pytest

import kalends
from kalends.broker.register.sqlite import lives
from kalends.client.transports.retry import Backoff
from kalends.contract import calls, proofs
from kalends.contract import messages as m
from kalends.core.errors import (
    Conflict,
    InvalidInput,
    KalendsError,
    KeyReused,
    NoCommonTime,
    NotAllowed,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from kalends.core.identifiers import request_id
from kalends.serving.auth.keys import write_key_pair
from tests.support import tokens
from tests.support.ports import free_urls

from .facility import CAPACITY, Facility, Keys, broker_text, make_facility, site_text, write
from .servers import Server, StartFailed, running, until

ONCE = Backoff(tries_max=1)
ALL_THREE = "site0/cluster:2 + site1/cluster + site2/cluster"


def tomorrow() -> int:
    return (int(time.time()) // 3_600 + 24) * 3_600


async def connected(client: kalends.Client, count: int = 3) -> None:
    """Return once the broker has heard of `count` resources."""

    async def has_all() -> bool:
        return len((await client.resources()).resources) == count

    await until(has_all, f"{count} resources")


@asynccontextmanager
async def at_a_broker(
    folder: Path, sites: int = 3, backoff: Backoff | None = None
) -> AsyncIterator[tuple[Facility, kalends.Client]]:
    """A facility with one broker, and anna, who is connected to it once it has heard of all sites."""
    facility = make_facility(folder, sites=sites, replicas=1)
    async with (
        running(*facility.servers),
        kalends.connect(facility.brokers[0].url, user="anna", backoff=backoff) as c,
    ):
        await connected(c, sites)
        yield facility, c


async def site_claims(facility: Facility) -> list[calls.AuditClaim]:
    """Everything that any site has on its calendar."""
    found: list[calls.AuditClaim] = []
    for site in facility.sites:
        async with kalends.connect(site.url, user="auditor") as client:
            audited = await client.audit()
            assert not audited.problems
            found += audited.claims
    return found


async def settled(facility: Facility) -> list[calls.AuditClaim]:
    """All claims, once none is only held or prepared."""

    async def quiet() -> list[calls.AuditClaim] | None:
        claims = await site_claims(facility)
        return None if any(each.state in ("held", "prepared") for each in claims) else claims

    async def answer() -> tuple[list[calls.AuditClaim]] | None:
        claims = await quiet()
        return None if claims is None else (claims,)

    found = await until(answer, "nothing is in doubt")
    assert found is not None
    return found[0]


async def test_a_reservation_is_made_moved_resized_and_cancelled_on_all_its_sites(
    tmp_path: Path,
) -> None:
    async with at_a_broker(tmp_path) as (facility, c):
        start = tomorrow()
        found = await c.find(ALL_THREE, duration="1h", at=start)
        assert [each.start for each in found.candidates] == [start]
        booked = await c.book(ALL_THREE, duration="1h", at=start, key="first-booking")
        assert (booked.state, booked.start, booked.text) == ("reserved", start, ALL_THREE)
        assert (await c.resolve("first-booking")).id == booked.id
        moved = await c.move(booked.id, start + 7_200)
        assert (moved.id, moved.start, moved.end) == (booked.id, start + 7_200, start + 10_800)
        longer = await c.extend(booked.id, by="1h")
        assert (longer.id, longer.start, longer.end) == (booked.id, start + 7_200, start + 14_400)
        fewer = await c.shrink(booked.id, units={"site0/cluster": 1})
        assert {claim.units for claim in fewer.claims} == {1}
        with pytest.raises(InvalidInput):
            await c.move(booked.id, start + 7_200)
        assert [view.start for view in await c.list()] == [start + 7_200]

        async def confirmed() -> bool:
            return all(claim.confirmed for claim in (await c.show(booked.id)).claims)

        await until(confirmed, "all sites have confirmed")
        locked = [each for each in await settled(facility) if each.state == "locked"]
        assert {(each.start, each.end) for each in locked} == {(start + 7_200, start + 14_400)}
        assert len(locked) == 3
        kinds = [event.kind for event in (await c.why(booked.id)).events]
        assert kinds == ["reserved", "changed", "changed", "changed"]
        assert (await c.cancel(booked.id)).state == "cancelled"
        assert (await c.cancel(booked.id)).state == "cancelled"
        assert all(each.state == "cancelled" for each in await settled(facility))
        again = await c.resolve("first-booking")
        assert (again.id, again.state) == (booked.id, "cancelled")


async def test_a_refused_change_leaves_the_old_reservation_as_it_was(tmp_path: Path) -> None:
    async with at_a_broker(tmp_path, sites=2) as (_, c):
        start = tomorrow()
        both = "site0/cluster + site1/cluster"
        mine = await c.book(both, duration="1h", at=start)
        await c.book(f"site1/cluster:{CAPACITY}", duration="1h", at=start + 3_600)
        with pytest.raises(NoCommonTime) as refused:
            await c.move(mine.id, start + 3_600, key="hopeless-move")
        assert [refusal.where for refusal in refused.value.refusals] == ["site1/cluster"]
        with pytest.raises(NoCommonTime):
            await c.move(mine.id, start + 3_600, key="hopeless-move")
        standing = await c.show(mine.id)
        assert (standing.state, standing.start, standing.changing) == ("reserved", start, "")
        with pytest.raises(KeyReused):
            await c.move(mine.id, start + 7_200, key="hopeless-move")


async def test_a_hold_can_be_locked_or_released_and_what_is_done_twice_says_the_same(
    tmp_path: Path,
) -> None:
    async with at_a_broker(tmp_path, sites=2) as (_, c):
        start = tomorrow()
        both = "site0/cluster + site1/cluster"
        hold = await c.hold(both, duration="1h", at=start)
        assert hold.state == "held"
        assert hold.expires_at > time.time()
        assert (await c.lock(hold.id)).state == "reserved"
        assert (await c.lock(hold.id)).state == "reserved"
        with pytest.raises(Conflict):
            await c.release(hold.id)
        other = await c.hold(both, duration="1h", at=start + 3_600)
        assert (await c.release(other.id)).state == "cancelled"
        assert (await c.release(other.id)).state == "cancelled"
        with pytest.raises(Conflict):
            await c.lock(other.id)
        third = await c.hold(both, duration="1h", at=start + 7_200)
        assert (await c.cancel(third.id)).state == "cancelled"
        seen = await c.events(0, wait_s=0)
        assert [(each.id, each.kind) for each in seen.events] == [
            (hold.id, "held"), (hold.id, "reserved"), (other.id, "held"), (other.id, "released"),
            (third.id, "held"), (third.id, "released"),
        ]  # fmt: skip


async def test_a_repeated_key_gives_the_same_reservation_also_after_a_restart(
    tmp_path: Path,
) -> None:
    facility = make_facility(tmp_path, replicas=1)
    (broker,) = facility.brokers
    async with running(*facility.servers):
        start = tomorrow()
        async with kalends.connect(broker.url, user="anna") as c:
            await connected(c)
            first = await c.book(ALL_THREE, duration="1h", at=start, key="the-same-key")
            twice = await asyncio.gather(
                *(c.book(ALL_THREE, duration="1h", at=start, key="one-more-key") for _ in range(8))
            )
            assert len({view.id for view in twice}) == 1
        assert await broker.stop() == 0
        await broker.start()
        async with kalends.connect(broker.url, user="anna") as c:
            assert (
                await c.book(ALL_THREE, duration="1h", at=start, key="the-same-key")
            ).id == first.id
            with pytest.raises(KeyReused):
                await c.book(ALL_THREE, duration="2h", at=start, key="the-same-key")
            with pytest.raises(NotFound):
                await c.resolve("never-arrived")
        async with kalends.connect(broker.url, user="bert") as c:
            await connected(c)
            theirs = await c.book(ALL_THREE, duration="1h", at=start, key="the-same-key")
            assert theirs.id != first.id


async def test_after_a_kill_in_the_middle_of_bookings_every_outcome_is_settled(
    tmp_path: Path,
) -> None:
    facility = make_facility(tmp_path, replicas=1)
    (broker,) = facility.brokers
    async with running(*facility.servers):
        start = tomorrow()
        keys = [f"booking-{number:03}" for number in range(40)]
        answers: dict[str, str] = {}

        async with kalends.connect(broker.url, user="anna", backoff=ONCE) as c:
            await connected(c)
            first_answer = asyncio.Event()

            async def book(number: int, key: str) -> None:
                try:
                    view = await c.book(ALL_THREE, duration="10m", at=start + 600 * number, key=key)
                except (OutcomeUnknown, Unavailable):
                    return
                answers[key] = view.id
                first_answer.set()

            bookings = [asyncio.create_task(book(*each)) for each in enumerate(keys)]
            await asyncio.wait_for(first_answer.wait(), 30)
            await broker.kill()
            await asyncio.gather(*bookings)
        await broker.start()
        async with kalends.connect(broker.url, user="anna") as c:

            async def decided() -> dict[str, str] | None:
                found = {}
                for key in keys:
                    try:
                        view = await c.resolve(key)
                    except NotFound:
                        continue
                    if view.state == "open":
                        return None
                    found[key] = view.state
                return found

            states = await until(decided, "every booking is decided")
            assert states is not None
            assert all(states[key] == "reserved" for key in answers)
            reserved = {
                (await c.resolve(key)).start for key, state in states.items() if state == "reserved"
            }
            locked = [each for each in await settled(facility) if each.state == "locked"]
            assert sorted((each.resource, each.start) for each in locked) == sorted(
                (resource, start) for start in reserved for resource in facility.resources
            )


async def test_a_request_that_was_open_goes_on_after_a_restart_once_its_sites_are_connected(
    tmp_path: Path,
) -> None:
    facility = make_facility(tmp_path, replicas=1)
    (broker,) = facility.brokers
    async with running(*facility.servers):
        async with kalends.connect(broker.url, user="anna", backoff=ONCE) as c:
            await connected(c)
            os.kill(facility.sites[2].pid, signal.SIGSTOP)
            view = await c.book(ALL_THREE, duration="1h", at=tomorrow(), key="left-open", wait_s=1)
            assert view.state == "open"
        await broker.kill()
        os.kill(facility.sites[2].pid, signal.SIGCONT)
        await broker.start()
        async with kalends.connect(broker.url, user="anna") as c:

            async def decided() -> str | None:
                state = (await c.resolve("left-open")).state
                return None if state == "open" else state

            assert await until(decided, "it is decided") == "reserved"


async def test_another_replica_takes_over_what_a_dead_one_has_left(tmp_path: Path) -> None:
    facility = make_facility(tmp_path, replicas=2)
    first, second = facility.brokers
    async with running(*facility.servers):
        start = tomorrow()
        async with kalends.connect(first.url, user="anna") as c:
            await connected(c)
            hold = await c.hold(ALL_THREE, duration="1h", at=start)
            done = await c.book(ALL_THREE, duration="1h", at=start + 3_600, key="before-the-end")
        await first.kill()
        async with kalends.connect(second.url, user="anna") as c:
            await connected(c)
            assert (await c.resolve("before-the-end")).id == done.id
            assert (await c.lock(hold.id)).state == "reserved"
            assert (await c.cancel(done.id)).state == "cancelled"
        locked = [each for each in await settled(facility) if each.state == "locked"]
        assert {each.start for each in locked} == {start}


async def test_replicas_give_one_answer_to_one_key_asked_of_both_at_once(tmp_path: Path) -> None:
    facility = make_facility(tmp_path, replicas=2)
    async with (
        running(*facility.servers),
        kalends.connect(facility.brokers[0].url, user="anna") as one,
        kalends.connect(facility.brokers[1].url, user="anna") as two,
    ):
        await connected(one)
        await connected(two)
        start = tomorrow()
        for number in range(10):
            at, key = start + 600 * number, f"raced-key-{number}"
            answers = await asyncio.gather(
                one.book(ALL_THREE, duration="10m", at=at, key=key),
                two.book(ALL_THREE, duration="10m", at=at, key=key),
            )
            assert {(view.id, view.state) for view in answers} == {(answers[0].id, "reserved")}
        locked = [each for each in await settled(facility) if each.state == "locked"]
        assert len(locked) == 30


async def test_one_replica_is_served_by_one_process(tmp_path: Path) -> None:
    facility = make_facility(tmp_path, sites=1, replicas=1)
    (broker,) = facility.brokers
    text = broker.configuration.read_text()
    elsewhere = text.replace(
        f'listen = "{broker.url.removeprefix("http://")}"', 'listen = "127.0.0.1:0"'
    )
    twin = Server("twin", write(tmp_path / "twin.toml", elsewhere), "http://127.0.0.1:1")
    async with running(*facility.servers):
        await twin.spawn()
        with pytest.raises(StartFailed) as refused:
            await twin.listening()
        assert "another process serves as broker-1" in refused.value.errors


async def test_without_a_site_nothing_is_booked_there_and_it_is_used_again_when_it_is_back(
    tmp_path: Path,
) -> None:
    async with at_a_broker(tmp_path, backoff=ONCE) as (facility, c):
        start = tomorrow()
        await facility.sites[2].kill()

        async def is_down() -> bool:
            states = {each.site: each.state for each in (await c.resources()).sites}
            return states == {"site0": "up", "site1": "up", "site2": "down"}

        await until(is_down, "site2 is down")
        with pytest.raises(Unavailable) as refused:
            await c.book(ALL_THREE, duration="1h", at=start, patience="none")
        assert [refusal.where for refusal in refused.value.refusals] == ["site2"]
        with pytest.raises(Unavailable):
            await c.calendar("site2/cluster", end=start)
        with pytest.raises(NotFound):
            await c.calendar("site1/nothing", end=start)
        assert (await c.book("site0/cluster", duration="1h", at=start)).state == "reserved"
        waits = await c.book(ALL_THREE, duration="1h", at=start + 3600, wait_s=0)
        assert waits.waiting is not None
        assert waits.waiting.awaited == ("site2",)
        await facility.sites[2].start()
        assert (await c.wait(waits.id)).state == "reserved"
        await connected(c)
        assert (await c.book(ALL_THREE, duration="1h", at=start)).state == "reserved"
        assert (await c.calendar("site2/cluster", start=start, end=start + 3_600)).slots


async def test_a_site_may_ask_what_was_decided_and_only_who_takes_part_is_told(
    tmp_path: Path,
) -> None:
    facility = make_facility(tmp_path, sites=1, replicas=1)
    (broker,) = facility.brokers
    async with running(*facility.servers), aiohttp.ClientSession() as http:
        async with kalends.connect(broker.url, user="anna") as c:
            await connected(c, 1)
            booked = await c.book("site0/cluster", duration="1h", at=tomorrow())

        async def inquire(rid: str, secret: str) -> tuple[int, bytes]:
            question = m.Inquire(rid=rid, att=1, site="site0", secret=secret)
            async with http.post(
                broker.url + "/v1/inquire", data=msgspec.msgpack.encode(question)
            ) as answer:
                return answer.status, await answer.read()

        with closing(sqlite3.connect(tmp_path / "broker.sqlite")) as store:
            key = proofs.site_key(lives.secret(store), "site0")
        never_heard_of = request_id(1_800_000_000_000, 1)
        for rid, outcome in ((never_heard_of, "abort"), (booked.id, "commit")):
            assert (await inquire(rid, "x" * 32))[0] == 403
            status, body = await inquire(rid, proofs.of_request(key, rid))
            assert status == 200
            assert msgspec.msgpack.decode(body, type=m.Outcome).outcome == outcome
        async with http.post(broker.url + "/v1/inquire", data=b"nonsense" * 1_000) as answer:
            assert answer.status == 413
        async with http.post(broker.url + "/v1/inquire", data=b"nonsense") as answer:
            assert answer.status == 400


async def test_with_tokens_everyone_sees_their_own_requests_and_auditors_all(
    tmp_path: Path,
) -> None:
    keys = Keys(
        people=write_key_pair(tmp_path / "people"),
        broker=write_key_pair(tmp_path / "broker-key"),
        broker_private=tmp_path / "broker-key",
    )
    site_url, broker_url = free_urls(2)
    site = Server(
        "site0", write(tmp_path / "site0.toml", site_text("site0", site_url, keys=keys)), site_url
    )
    text = broker_text(broker_url, {"site0": site_url}, keys=keys)
    broker = Server("broker1", write(tmp_path / "broker1.toml", text), broker_url)

    def token(user: str, *scopes: str) -> str:
        return tokens.token(tmp_path / "people", user, ("broker",), scopes)

    async with (
        running(site, broker),
        kalends.connect(broker_url, token=token("anna", "use")) as anna,
        kalends.connect(broker_url, token=token("bert", "use")) as bert,
        kalends.connect(broker_url, token=token("olga", "use", "audit")) as olga,
    ):
        await connected(anna, 1)
        booked = await anna.book("site0/cluster", duration="1h", at=tomorrow())
        assert booked.user == "anna"
        for call in (bert.show, bert.why, bert.cancel, bert.lock):
            with pytest.raises(NotFound):
                await call(booked.id)
        assert await bert.list() == ()
        with pytest.raises(NotAllowed):
            await bert.list(everyone=True)
        with pytest.raises(NotAllowed):
            await bert.audit()
        assert [view.id for view in await olga.list(everyone=True)] == [booked.id]
        audited = await olga.audit()
        assert [(each.id, each.state) for each in audited.records] == [(booked.id, "commit")]
        assert audited.problems == ()


async def test_a_drained_broker_refuses_new_requests_and_keeps_its_promises(
    tmp_path: Path,
) -> None:
    async with at_a_broker(tmp_path, sites=1, backoff=ONCE) as (_, c):
        start = tomorrow()
        hold = await c.hold("site0/cluster", duration="1h", at=start)
        assert (await c.drain()).status == "draining"
        with pytest.raises(Unavailable):
            await c.book("site0/cluster", duration="1h", at=start)
        assert (await c.lock(hold.id)).state == "reserved"
        assert (await c.drain(False)).status == "ok"
        assert (await c.book("site0/cluster", duration="1h", at=start)).state == "reserved"


async def test_what_cannot_be_booked_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with at_a_broker(tmp_path, sites=1) as (facility, c):
        start = tomorrow()
        expected: list[tuple[str, int, type[KalendsError]]] = [
            ("site0/nothing", start, NotFound),
            ("nowhere/cluster", start, NotFound),
            (f"site0/cluster:{CAPACITY + 1}", start, InvalidInput),
            ("site0/cluster", start + 1, InvalidInput),
        ]
        for text, at, kind in expected:
            with pytest.raises(kind):
                await c.book(text, duration="1h", at=at)
        assert await settled(facility) == []
