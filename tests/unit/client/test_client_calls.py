"""The client against a real server on loopback, over both transports: calls, keys, retries, outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from aiohttp import web
from client_broker import BUSY, NOW_S, Broker, serving

import kalends
from kalends.client.client import Client
from kalends.client.client_settings import Surroundings
from kalends.client.connection import in_surroundings
from kalends.client.transports.retry import Backoff
from kalends.contract import calls
from kalends.core.errors import (
    Conflict,
    InvalidInput,
    KalendsError,
    KeyReused,
    LimitExceeded,
    NoCommonTime,
    NotAuthenticated,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)

TRANSPORTS = ("session", "http")
NOTHING_LISTENS = "http://127.0.0.1:9"


@pytest.fixture
def waits() -> list[float]:
    """The waits between retries, which are noted down instead of being waited."""
    return []


def connected(url: str, waits: list[float], **options: Any) -> Client:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    around = {"sleep": sleep, "wall_clock": lambda: NOW_S, "fraction": lambda: 0.5}
    around |= {name: options.pop(name) for name in Surroundings._fields if name in options}
    defaults: dict[str, Any] = {"user": "ada", "zone": "UTC", "timeout_s": 60.0}
    return in_surroundings(kalends.connect(url, **{**defaults, **options}), **around)


@pytest.fixture(params=TRANSPORTS)
async def client(
    request: pytest.FixtureRequest, broker: Broker, waits: list[float]
) -> AsyncIterator[Client]:
    async with connected(broker.url, waits, transport=request.param) as client:
        yield client


async def book(client: Client, **options: Any) -> calls.RequestView:
    return await client.book("sdsc/sp2:64 + caltech/onyx", duration="2h", **options)


async def test_every_call_of_the_table_has_a_method_that_makes_it(
    client: Client, broker: Broker
) -> None:
    booked = await book(client, note="run 7")
    held = await client.hold("caltech/onyx", duration="1h", keep="5m")
    assert (booked.state, held.state, held.expires_at) == ("reserved", "held", NOW_S + 300)
    assert (await client.lock(held.id)).state == "reserved"
    other = await client.hold("caltech/onyx", duration="1h")
    assert (await client.release(other.id)).state == "cancelled"
    assert (await client.resources()).resources[0].name == "sdsc/sp2"
    assert (await client.calendar("sdsc/sp2", end="now+1d")).free
    assert (await client.find("caltech/onyx", duration="1h", count=1)).candidates
    assert (await client.show(booked.id[-8:])).note == "run 7"
    assert (await client.why(booked.id)).events[0].kind == "booked"
    assert [view.id for view in await client.list(state="cancelled")] == [other.id]
    assert (await client.move(booked.id, "now+1d")).start == NOW_S + 86_400
    assert (await client.cancel(booked.id)).state == "cancelled"
    assert (await client.health()).status == "ok"
    assert (await client.whoami()).server == "test"
    assert (await client.drain()).status == "draining"
    assert (await client.drain(False)).status == "ok"
    assert (await client.audit()).claims
    assert (await client.bidders()).bidders[0].asked == 2
    assert (await client.reconcile(wait_s=2.5)).unreached == ("caltech",)
    assert broker.seen[-1] == ("reconcile", calls.Reconcile(wait_ms=2_500, go_on=False))
    taken = await client.reclaim("sdsc/sp2", at="now+1d", duration="2h", reason="a new pump")
    assert (taken.end - taken.start, taken.reason) == (7_200, "a new pump")
    assert await client.reclaims() == (taken,)
    assert await client.end_reclaim(taken.key) == taken
    assert (await client.check_in(booked.id)).user == "ada"
    closed = await client.close_site(duration="2h", standing="move")
    assert (closed.end - closed.start, closed.standing) == (7_200, "move")
    assert await client.open_site() == ()
    assert (await client.today(zone="UTC")).comes
    (asked,) = await client.approvals()
    approved = await client.approve(asked.id[-8:], word="with care", revision=asked.revision)
    assert (approved.state, approved.word, approved.revision) == ("approved", "with care", 2)
    assert (await client.decline(asked.id, word="no")).state == "declined"
    await client.resolve(broker.seen[0][1].key)
    await client.events()
    address = await client.add_notice_address("https://hooks.example.org/x")
    assert address.secret
    assert [each.secret for each in await client.notice_addresses()] == [""]
    assert (await client.test_notice_address(address.to)).to == address.to
    assert (await client.remove_notice_address(address.to)).to == address.to
    named = await client.book(
        "ncsa/cave", duration="1h", at="2027-03-01T12:00Z", on_behalf_of="bob"
    )
    assert (named.user, named.booked_by) == ("bob", "ada")
    held = next(iter(broker.requests))
    shared = await client.share(held, "bob", may_change=True)
    assert shared.sharing is not None
    assert [each.may for each in shared.sharing.parties] == ["change"]
    await client.unshare(held, group="optics")
    offered = await client.give(held, "bob", days=2)
    assert offered.sharing is not None
    assert offered.sharing.offered_to == "bob"
    assert (await client.accept_offer(held)).given_by == "ann"
    await client.decline_offer(held)
    assert (await client.add_link(held)).address == f"{broker.url}/shared/{'s' * 43}"
    assert (await client.revoke_link(held)).address == ""
    feed = await client.add_feed("phone")
    assert feed.address == f"{broker.url}/feed/{'s' * 43}.ics"
    assert [(each.name, each.address) for each in await client.feeds()] == [("phone", "")]
    assert (await client.revoke_feed("phone")).name == "phone"
    series = await client.book_series(
        "sdsc/sp2", duration="1h", at="now+1d", every="week", times=2, wait_s=0
    )
    assert series.rule == "FREQ=WEEKLY;COUNT=2"
    hours = await client.find_series("sdsc/sp2", duration="1h", every="week", times=2)
    assert hours.hours[0].missed == ("2027-03-09",)
    assert (await client.series(series.id)).id == series.id
    assert (await client.retry_series(series.id)).id == series.id
    assert (await client.cancel_series(series.id)).id == series.id
    assert (await client.move_series(series.id, by=timedelta(hours=-1))).id == series.id
    assert (await client.extend_series(series.id, by="30m")).id == series.id
    assert (await client.shrink_series(series.id, units={"sdsc/sp2": 1})).id == series.id
    assert (await client.grant_credits("user:ada", 10)).balance == 10
    assert (await client.take_credits("user:ada", 10)).balance == -10
    assert (await client.credits())[0].account == "user:ada"
    assert len(await client.credit_entries("user:ada")) > 0
    assert await client.broker_sites() == ()
    assert (await client.announce_site("ctc", "card")).state == "announced"
    assert (await client.add_site("ctc", card="card")).state == "joined"
    assert (await client.remove_site("ctc")).state == "leaving"
    async with await client.at_site("sdsc") as site:
        assert (await site.whoami()).user == "ada"
    about_others = {
        name
        for name in calls.OPERATION
        if name.startswith(("agent_", "host_", "job", "machine_", "slots"))
    }
    assert {name for name, _ in broker.seen} == set(calls.OPERATION) - about_others


@pytest.mark.parametrize("id", ["", " ", "2", "the first"])
async def test_no_owner_approves_by_less_than_a_part_of_an_id_whatever_waits(
    client: Client, id: str
) -> None:
    with pytest.raises(kalends.InvalidInput, match="is not an id"):
        await client.approve(id)
    with pytest.raises(kalends.InvalidInput, match="is not an id"):
        await client.decline(id, word="no")


async def test_a_reservation_grows_and_shrinks_from_its_start(client: Client) -> None:
    booked = await book(client)
    longer = await client.extend(booked.id, by="1h")
    assert (longer.start, longer.end - longer.start) == (booked.start, 3 * 3_600)
    assert (await client.extend(booked.id, duration="4h")).end == booked.start + 4 * 3_600
    assert (await client.shrink(booked.id, by="3h")).end == booked.start + 3_600
    smaller = await client.shrink(booked.id, units={"sdsc/sp2": 8})
    assert {claim.resource: claim.units for claim in smaller.claims}["sdsc/sp2"] == 8


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("extend", {"duration": "1h"}),
        ("shrink", {"duration": "3h"}),
        ("shrink", {"by": "2h"}),
        ("extend", {}),
        ("extend", {"by": "1h", "duration": "3h"}),
    ],
)
async def test_a_resize_the_wrong_way_or_of_no_size_changes_nothing(
    client: Client, broker: Broker, method: str, options: dict[str, str]
) -> None:
    booked = await book(client)
    with pytest.raises(InvalidInput):
        await getattr(client, method)(booked.id, **options)
    assert await client.show(booked.id) == booked
    assert "change" not in [name for name, _ in broker.seen]


async def test_a_booking_that_fails_raises_why_with_its_id(client: Client) -> None:
    with pytest.raises(NoCommonTime) as failed:
        await client.book("caltech/onyx", duration="2d")
    assert failed.value.refusals == (BUSY,)
    assert (await client.show(failed.value.request_id)).state == "failed"


async def test_a_refused_change_raises_and_the_old_stands(client: Client) -> None:
    booked = await book(client)
    with pytest.raises(NoCommonTime):
        await client.extend(booked.id, duration="2d")
    assert await client.show(booked.id) == booked


async def test_a_call_that_never_arrived_is_sent_again_with_the_same_key(
    client: Client, broker: Broker
) -> None:
    broker.faults.extend(["drop-before", "drop-before"])
    booked = await book(client)
    keys = {body.key for name, body in broker.seen}
    assert (booked.state, len(broker.seen), len(keys)) == ("reserved", 3, 1)


async def test_a_call_whose_answer_was_lost_books_once_when_it_is_sent_again(
    client: Client, broker: Broker
) -> None:
    broker.faults.append("drop-after")
    booked = await book(client)
    assert broker.requests == {booked.id: booked}


async def test_the_outcome_that_is_unknown_is_settled_by_the_key_when_it_was_done(
    broker: Broker, waits: list[float]
) -> None:
    for transport in TRANSPORTS:
        once = Backoff(tries_max=1)
        async with connected(broker.url, waits, transport=transport, backoff=once) as client:
            broker.faults.append("drop-after")
            with pytest.raises(OutcomeUnknown) as unknown:
                await book(client)
            settled = await client.resolve(unknown.value.request_id)
            assert settled.state == "reserved"
            assert await book(client, key=unknown.value.request_id) == settled


async def test_the_outcome_that_is_unknown_is_settled_as_never_arrived(
    client: Client, broker: Broker
) -> None:
    broker.faults.extend(["drop-before"] * 6)
    with pytest.raises(OutcomeUnknown) as unknown:
        await book(client, key="my-own-key")
    assert unknown.value.request_id == "my-own-key"
    with pytest.raises(NotFound):
        await client.resolve("my-own-key")
    assert (await book(client, key="my-own-key")).state == "reserved"


@pytest.mark.parametrize(
    "later", [Unavailable("restarting"), LimitExceeded("slow down"), NotAuthenticated("expired")]
)
async def test_a_later_refusal_does_not_hide_that_an_earlier_send_may_have_been_done(
    client: Client, broker: Broker, later: KalendsError
) -> None:
    broker.faults.extend(["drop-after", *[later] * 5])
    with pytest.raises(OutcomeUnknown) as unknown:
        await book(client)
    broker.faults.clear()
    assert (await client.resolve(unknown.value.request_id)).state == "reserved"


async def test_an_outcome_that_the_server_itself_does_not_know_names_the_key_too(
    client: Client, broker: Broker
) -> None:
    broker.faults.append(OutcomeUnknown("the store was lost meanwhile"))
    with pytest.raises(OutcomeUnknown, match="the store was lost meanwhile") as unknown:
        await book(client, key="my-own-key")
    assert unknown.value.request_id == "my-own-key"


async def test_a_definite_answer_after_a_broken_send_settles_it(
    client: Client, broker: Broker
) -> None:
    broker.faults.append("drop-after")
    with pytest.raises(NoCommonTime):
        await client.book("caltech/onyx", duration="2d")


async def test_a_lost_answer_to_a_question_leaves_no_open_outcome(
    client: Client, broker: Broker
) -> None:
    booked = await book(client)
    broker.faults.extend(["drop-after"] * 12)
    with pytest.raises(Unavailable):
        await client.show(booked.id)


async def test_a_lost_lock_names_the_request_and_can_be_repeated(
    client: Client, broker: Broker
) -> None:
    held = await client.hold("caltech/onyx", duration="1h")
    broker.faults.extend(["drop-after"] * 6)
    with pytest.raises(OutcomeUnknown) as unknown:
        await client.lock(held.id)
    assert unknown.value.request_id == held.id
    assert (await client.lock(held.id)).state == "reserved"


async def test_unavailable_is_retried_with_growing_jittered_waits(
    client: Client, broker: Broker, waits: list[float]
) -> None:
    broker.faults.extend([Unavailable("starting")] * 3)
    assert (await client.health()).status == "ok"
    assert waits == pytest.approx([0.05, 0.1, 0.2])


async def test_the_server_can_ask_for_a_longer_wait(
    client: Client, broker: Broker, waits: list[float]
) -> None:
    broker.faults.append(LimitExceeded("too many calls", retry_after_s=7.0))
    await client.health()
    assert waits == [7.0]


async def test_a_limit_that_does_not_pass_is_not_retried(client: Client, broker: Broker) -> None:
    broker.faults.append(LimitExceeded("too many holds"))
    with pytest.raises(LimitExceeded):
        await book(client)
    assert len(broker.seen) == 1


async def test_retries_end_when_the_time_is_over(broker: Broker, waits: list[float]) -> None:
    async with connected(broker.url, waits, transport="http", timeout_s=5.0) as client:
        broker.faults.append(Unavailable("starting", retry_after_s=6.0))
        with pytest.raises(Unavailable):
            await client.health()
    assert waits == []


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_where_nothing_listens_nothing_was_done(transport: str, waits: list[float]) -> None:
    async with connected(NOTHING_LISTENS, waits, transport=transport) as client:
        with pytest.raises(Unavailable, match="refused") as unavailable:
            await book(client)
    assert (unavailable.value.where, len(waits)) == (NOTHING_LISTENS, 5)


async def test_a_key_used_for_another_body_is_refused(client: Client) -> None:
    await book(client, key="one-key-1")
    with pytest.raises(KeyReused):
        await client.book("caltech/onyx", duration="1h", key="one-key-1")


async def test_an_answer_that_is_nonsense_leaves_a_booking_open_and_a_question_failed(
    client: Client, broker: Broker
) -> None:
    broker.faults.append("garbled")
    with pytest.raises(OutcomeUnknown) as unknown:
        await book(client)
    assert (await client.resolve(unknown.value.request_id)).state == "reserved"
    broker.faults.append("garbled")
    with pytest.raises(KalendsError, match="not a Health"):
        await client.health()


async def test_problems_become_the_typed_error_they_stand_for(
    client: Client, broker: Broker
) -> None:
    booked = await client.book("caltech/onyx", duration="1h")
    with pytest.raises(Conflict, match="it is reserved"):
        await client.release(booked.id)


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.show("../admin"),
        lambda client: client.calendar("not a resource", end="now+1d"),
        lambda client: client.book("a/b", duration="1h", wait_s=-1),
        lambda client: client.book("a/b", duration="1h", key="short"),
        lambda client: client.book("a/b", duration="soon"),
        lambda client: client.book("a/b"),
        lambda client: client.list(count=0),
    ],
)
async def test_what_the_server_would_refuse_is_never_sent(
    client: Client, broker: Broker, call: Any
) -> None:
    with pytest.raises(InvalidInput):
        await call(client)
    assert broker.seen == []
    with pytest.raises(InvalidInput, match=r"wait_s: 200 .*0 to 120, and call again"):
        await client.cancel("01890000-0000-7000-8000-000000000001", wait_s=200)


async def test_a_booking_still_being_decided_is_answered_as_open(client: Client) -> None:
    assert (await book(client, wait_s=0)).state == "open"


async def test_watch_tells_every_event_once_over_lost_connections(
    client: Client, broker: Broker
) -> None:
    booked = await book(client)
    events = client.watch(after=-1)
    first = asyncio.create_task(anext(events))
    await asyncio.to_thread(broker.watched.wait)
    broker.faults.extend(["drop-before"])
    await client.cancel(booked.id)
    assert (await first).kind == "cancelled"
    await events.aclose()


async def test_watch_resumes_after_a_number(client: Client) -> None:
    for _ in range(3):
        await book(client)
    events = client.watch(after=0)
    assert [(await anext(events)).number for _ in range(2)] == [1, 2]


async def test_a_token_is_sent_instead_of_a_name(broker: Broker, waits: list[float]) -> None:
    broker.token = "secret"
    for transport in TRANSPORTS:
        async with connected(broker.url, waits, transport=transport, token="secret") as client:
            await client.health()
        async with connected(broker.url, waits, transport=transport, token="wrong") as client:
            with pytest.raises(NotAuthenticated):
                await client.health()
    assert broker.users == ["token-user", "token-user"]


async def test_the_name_reaches_a_server_in_open_mode(client: Client, broker: Broker) -> None:
    await client.health()
    assert broker.users == ["ada"]


async def test_calls_made_in_one_turn_travel_in_one_frame(
    broker: Broker, waits: list[float]
) -> None:
    async with connected(broker.url, waits) as client:
        await client.health()
        answers = await asyncio.gather(*(client.health() for _ in range(100)))
    assert len(answers) == 100
    assert broker.frames == [1, 100]


async def test_more_calls_than_a_session_takes_wait_for_room(
    broker: Broker, waits: list[float]
) -> None:
    async with connected(broker.url, waits) as client:
        answers = await asyncio.gather(*(client.health() for _ in range(2_500)))
    assert len(answers) == 2_500
    assert sum(broker.frames) == 2_500
    assert max(broker.frames) <= 1_000


async def test_a_cancelled_call_leaves_the_session_to_the_others(
    broker: Broker, waits: list[float]
) -> None:
    async with connected(broker.url, waits) as client:
        await client.health()
        given_up = asyncio.create_task(client.health())
        await asyncio.sleep(0)
        given_up.cancel()
        assert (await client.health()).status == "ok"
        with pytest.raises(asyncio.CancelledError):
            await given_up


async def test_closing_fails_the_calls_in_flight(waits: list[float]) -> None:
    arrived = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def silent(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        loop.call_soon_threadsafe(arrived.set)
        await socket.receive()
        return socket

    app = web.Application()
    app.router.add_get("/v1/calls", silent)
    with serving(app) as url:
        async with connected(url, waits, backoff=Backoff(tries_max=1)) as client:
            call = asyncio.create_task(book(client))
            await arrived.wait()
        with pytest.raises(OutcomeUnknown):
            await call


async def test_a_server_that_never_answers_is_given_up_in_time(waits: list[float]) -> None:
    async def silent(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        while (await socket.receive()).type is web.WSMsgType.BINARY:
            pass
        return socket

    async def silent_http(request: web.Request) -> web.Response:
        await request.read()
        await asyncio.Event().wait()
        raise AssertionError

    app = web.Application()
    app.router.add_get("/v1/calls", silent)
    app.router.add_post("/v1/requests", silent_http)
    with serving(app) as url:
        for transport in TRANSPORTS:
            impatient = connected(url, waits, transport=transport, timeout_s=0.05)
            async with impatient as client:
                with pytest.raises(OutcomeUnknown, match="no answer within"):
                    await book(client, wait_s=0)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, NotAuthenticated), (404, NotFound), (429, LimitExceeded), (503, Unavailable),
        (500, KalendsError), (302, KalendsError),
    ],
)  # fmt: skip
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_answer_that_is_no_problem_document_is_told_by_its_status(
    waits: list[float], transport: str, status: int, expected: type[KalendsError]
) -> None:
    async def page(request: web.Request) -> web.Response:
        return web.Response(status=status, text="<html>", content_type="text/html")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", page)
    with serving(app) as url:
        async with connected(url, waits, transport=transport) as client:
            with pytest.raises(expected) as told:
                await client.health()
    assert type(told.value) is expected
    assert told.value.where.startswith(url)


async def test_a_failed_gateway_leaves_a_booking_open(waits: list[float]) -> None:
    async def gateway(request: web.Request) -> web.Response:
        return web.Response(status=504, text="<html>", content_type="text/html")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", gateway)
    with serving(app) as url:
        async with connected(url, waits, transport="http") as client:
            with pytest.raises(OutcomeUnknown, match="gateway"):
                await book(client)


async def test_an_answer_without_end_is_not_read_to_the_end(waits: list[float]) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/msgpack"})
        await response.prepare(request)
        try:
            while True:
                await response.write(bytes(1 << 20))
        except ConnectionError:
            return response

    app = web.Application()
    app.router.add_get("/healthz", endless)
    with serving(app) as url:
        once = Backoff(tries_max=1)
        async with connected(url, waits, transport="http", backoff=once) as client:
            with pytest.raises(Unavailable, match="more than"):
                await client.health()


async def test_a_session_that_sends_nonsense_is_left_and_opened_again(waits: list[float]) -> None:
    sent = []

    async def nonsense(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        sent.append(1)
        if len(sent) % 2:
            await socket.send_bytes(b"\xc1nonsense")
        else:
            await socket.send_str("text")
        await socket.receive()
        return socket

    app = web.Application()
    app.router.add_get("/v1/calls", nonsense)
    with serving(app) as url:
        async with connected(url, waits) as client:
            with pytest.raises(Unavailable, match="not a reply"):
                await client.health()
    assert len(sent) == 6


async def test_a_request_in_python_form_is_sent_as_it_is(client: Client, broker: Broker) -> None:
    request = client.request("sdsc/sp2:2", duration=3_600, window=("now", "now+1d"), note="a")
    assert await client.book(request, key="python-form")
    assert broker.seen[-1][1].request == request
    with pytest.raises(InvalidInput, match="its own time"):
        await client.book(request, duration="1h")
    noted = msgspec.structs.replace(request, note="b", priority=3)
    assert client.request(request, note="b", priority=3) == noted


async def test_text_that_has_no_bytes_is_refused_before_anything_is_sent(
    client: Client, broker: Broker
) -> None:
    with pytest.raises(InvalidInput, match="surrogate"):
        await book(client, note="\ud800")
    with pytest.raises(InvalidInput, match="surrogate"):
        await client.upload_agent("late", "# \udfff\n")
    assert (await client.list()) == ()
