"""Waiting with the client: progress, patience, copies, and what happens when the broker is away."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest
from client_broker import BUSY, NOW_S, Broker

import kalends
from kalends.client.connection import in_surroundings
from kalends.client.methods.follower import AWAY_S_MAX, LOOK_AGAIN_S, Follower
from kalends.contract import calls
from kalends.core.errors import (
    InvalidInput,
    KeyReused,
    LimitExceeded,
    NoCommonTime,
    Unavailable,
)
from kalends.core.requests import TimePreference


def connected(broker: Broker, **options: Any) -> kalends.Client:
    defaults: dict[str, Any] = {
        "user": "ada",
        "zone": "UTC",
        "transport": "http",
    }
    client = kalends.connect(broker.url, **{**defaults, **options})
    return in_surroundings(client, wall_clock=lambda: NOW_S)


def in_line(ahead: int, *awaited: str, listed: bool = False) -> dict[str, Any]:
    waiting = calls.Waiting(
        since=NOW_S, until=NOW_S + 60, ahead=ahead, awaited=awaited, listed=listed
    )
    return {"waiting": waiting}


TWO_STEPS = [in_line(2, "caltech/onyx"), in_line(1, "caltech/onyx"), {"state": "reserved"}]


async def test_a_request_is_followed_until_it_is_settled_and_each_change_is_told_once(
    broker: Broker,
) -> None:
    broker.courses.append([TWO_STEPS[0], TWO_STEPS[0], *TWO_STEPS[1:]])
    told: list[calls.RequestView] = []
    async with connected(broker) as client:
        booked = await client.book(
            "caltech/onyx", duration="1h", wait_s=None, on_progress=told.append
        )
    assert (booked.state, booked.waiting) == ("reserved", None)
    assert [view.waiting.ahead for view in told if view.waiting] == [2, 1]


async def test_progress_may_be_a_coroutine_function_and_is_waited_for(broker: Broker) -> None:
    broker.courses.append(list(TWO_STEPS))
    begun, ended = [], []

    async def tell(view: calls.RequestView) -> None:
        begun.append(view)
        await asyncio.sleep(0)
        ended.append(view)

    async with connected(broker) as client:
        await client.book("caltech/onyx", duration="1h", wait_s=None, on_progress=tell)
    assert len(begun) == 2
    assert ended == begun


async def test_without_progress_it_is_followed_all_the_same(broker: Broker) -> None:
    broker.courses.append(list(TWO_STEPS))
    async with connected(broker) as client:
        assert (await client.book("caltech/onyx", duration="1h", wait_s=None)).state == "reserved"


async def test_what_is_free_needs_one_call_and_tells_no_progress(broker: Broker) -> None:
    told: list[calls.RequestView] = []
    async with connected(broker) as client:
        await client.book("caltech/onyx", duration="1h", wait_s=None, on_progress=told.append)
    assert [name for name, _ in broker.seen] == ["book"]
    assert told == []


async def test_a_wait_that_ends_in_a_refusal_raises_it(broker: Broker) -> None:
    problem = NoCommonTime("none is left", refusals=(BUSY,)).to_problem()
    broker.courses.append([in_line(1, "caltech/onyx"), {"state": "failed", "problem": problem}])
    async with connected(broker) as client:
        with pytest.raises(NoCommonTime, match="none is left") as caught:
            await client.book("caltech/onyx", duration="1h", wait_s=None)
    assert caught.value.request_id in broker.requests


async def test_the_wait_ends_where_it_is_said_and_wait_goes_on(broker: Broker) -> None:
    broker.courses.append(list(TWO_STEPS))
    async with connected(broker) as client:
        left_open = await client.book("caltech/onyx", duration="1h", wait_s=1)
        assert left_open.state == "open"
        assert (await client.wait(left_open.id)).state == "reserved"


async def test_wait_stops_at_a_waiting_list_where_that_is_enough(broker: Broker) -> None:
    listed = in_line(0, "caltech/onyx", listed=True)
    broker.courses.append([in_line(1, "caltech/onyx"), listed, {"state": "reserved"}])
    async with connected(broker) as client:
        asked = await client.book("caltech/onyx", duration="1h", patience="taken", wait_s=0)
        on_list = await client.wait(asked.id, until_listed=True)
        assert on_list.waiting is not None
        assert on_list.waiting.listed
        assert (await client.waiting_list())[0].id == asked.id
        assert (await client.wait(asked.id)).state == "reserved"
        assert await client.waiting_list() == ()


async def test_patience_and_the_time_to_give_up_are_sent(broker: Broker) -> None:
    async with connected(broker) as client:
        await client.book("caltech/onyx", duration="1h")
        await client.hold(
            "caltech/onyx", duration="1h", patience="taken", give_up_at="now+1d", keep="5m"
        )
        await client.book("caltech/onyx", duration="1h", patience="none", give_up_at=NOW_S + 5)
    sent = [body for _, body in broker.seen if isinstance(body, calls.Book)]
    assert [(body.patience, body.give_up_at, body.hold) for body in sent] == [
        ("held", 0, False),
        ("taken", NOW_S + 86_400, True),
        ("none", NOW_S + 5, False),
    ]


async def test_a_hold_that_is_kept_for_too_long_is_never_sent_and_told_the_most(
    broker: Broker,
) -> None:
    async with connected(broker) as client:
        with pytest.raises(InvalidInput) as caught:
            await client.hold("caltech/onyx", duration="1h", keep="10d")
    assert caught.value.where == "keep"
    assert "longer than 1d" in caught.value.detail
    assert broker.seen == []


async def test_a_patience_that_there_is_not_is_never_sent(broker: Broker) -> None:
    async with connected(broker) as client:
        with pytest.raises(InvalidInput):
            await client.book("caltech/onyx", duration="1h", patience="for ever")  # type: ignore[arg-type]  # on purpose
    assert broker.seen == []


async def test_preferred_times_are_spelled_out_within_the_window(broker: Broker) -> None:
    # NOW_S is Fri 2027-01-15 08:00 in UTC.
    own = TimePreference(start=NOW_S, end=NOW_S + 60, weight=0.5)
    async with connected(broker) as client:
        wanted = client.request(
            "caltech/onyx", duration="1h", window=("now", "now+2d"), prefer=["mornings +2", own]
        )
        again = client.request(wanted, prefer="fri")
    noon = NOW_S + 4 * 3_600
    day = 86_400
    assert wanted.preferences == (
        own,
        TimePreference(start=NOW_S, end=noon, weight=2.0),
        TimePreference(start=noon + day - 6 * 3_600, end=noon + day, weight=2.0),
        TimePreference(start=noon + 2 * day - 6 * 3_600, end=NOW_S + 2 * day - 3_600 + 1, weight=2.0),
    )  # fmt: skip
    assert again.preferences[:-1] == wanted.preferences
    assert again.preferences[-1].weight == 1.0


async def test_copies_are_requests_of_their_own_that_a_repeated_call_finds_again(
    broker: Broker,
) -> None:
    async with connected(broker) as client:
        copies = await client.book_copies("caltech/onyx", 3, duration="1h", key="my-copies")
        again = await client.book_copies("caltech/onyx", 3, duration="1h", key="my-copies")
        with pytest.raises(KeyReused):
            await client.book_copies("caltech/onyx", 2, duration="2h", key="my-copies")
    assert sorted(broker.by_key) == ["my-copies-1", "my-copies-2", "my-copies-3"]
    assert [broker.by_key[f"my-copies-{n}"][1] for n in (1, 2, 3)] == [copy.id for copy in copies]
    assert again == copies


async def test_a_copy_that_fails_is_among_the_answers_and_stops_no_other(broker: Broker) -> None:
    problem = NoCommonTime("no room", refusals=(BUSY,)).to_problem()
    broker.courses.append([in_line(0, "caltech/onyx"), {"state": "failed", "problem": problem}])
    async with connected(broker) as client:
        copies = await client.book_copies("caltech/onyx", 3, duration="1h", wait_s=None)
    assert sorted(copy.state for copy in copies) == ["failed", "reserved", "reserved"]


@pytest.mark.parametrize("count", [0, -1, 101])
async def test_a_senseless_number_of_copies_is_never_sent(broker: Broker, count: int) -> None:
    async with connected(broker) as client:
        with pytest.raises(InvalidInput, match="copies"):
            await client.book_copies("caltech/onyx", count, duration="1h")
    assert broker.seen == []


def test_the_waiting_client_tells_progress_in_the_callers_thread_which_may_call_it(
    broker: Broker,
) -> None:
    # More steps than can be asked for until the client has cancelled, from its other thread.
    broker.courses.append([*TWO_STEPS[:2] * 100_000, TWO_STEPS[2]])
    threads: list[int] = []
    with kalends.connect_sync(broker.url, user="ada") as client:

        def give_up(view: calls.RequestView) -> None:
            threads.append(threading.get_ident())
            client.cancel(view.id)

        view = client.book("caltech/onyx", duration="1h", wait_s=None, on_progress=give_up)
    assert view.state == "cancelled"
    assert set(threads) == {threading.get_ident()}


def test_an_error_in_progress_ends_the_wait_of_the_waiting_client(broker: Broker) -> None:
    broker.courses.append(list(TWO_STEPS))

    def stop(view: calls.RequestView) -> None:
        raise ZeroDivisionError

    with kalends.connect_sync(broker.url, user="ada") as client:
        with pytest.raises(ZeroDivisionError):
            client.book("caltech/onyx", duration="1h", wait_s=None, on_progress=stop)
        assert client.health().status == "ok"


class Away:
    """Answers nothing until its clock shows `back_s`; each wait moves the clock on."""

    def __init__(self, back_s: float, error: Exception) -> None:
        self.now_s = 0.0
        self.back_s = back_s
        self.error = error

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    async def show(self, id: str) -> calls.RequestView:
        return calls.RequestView(id=id, state="reserved", user="ada", text="a/x", created_at=1)

    async def events(self, after: int = -1, *, id: str = "", wait_s: float = 0.0) -> calls.Events:
        if self.now_s < self.back_s:
            raise self.error
        return calls.Events(events=(), next=1)


def follower(away: Away) -> Follower:
    return Follower(away, clock=lambda: away.now_s, sleep=away.sleep)


@pytest.mark.parametrize("error", [Unavailable("away"), LimitExceeded("busy")])
async def test_a_wait_outlives_a_broker_that_is_away_for_a_while(error: Exception) -> None:
    away = Away(AWAY_S_MAX - LOOK_AGAIN_S, error)
    view = await follower(away).settled("1", wait_s=None, on_progress=None)
    assert view.state == "reserved"


async def test_a_broker_that_stays_away_ends_the_wait_with_its_error() -> None:
    away = Away(2 * AWAY_S_MAX, Unavailable("away"))
    with pytest.raises(Unavailable):
        await follower(away).settled("1", wait_s=None, on_progress=None)
    assert away.now_s == AWAY_S_MAX


class OftenAway(Away):
    """Open at first; away for most of `AWAY_S_MAX` after every answer."""

    async def show(self, id: str) -> calls.RequestView:
        view = await super().show(id)
        if self.now_s > 2 * AWAY_S_MAX:
            return view
        self.back_s = self.now_s + AWAY_S_MAX - LOOK_AGAIN_S
        return msgspec.structs.replace(view, state="open")


async def test_how_long_a_broker_is_away_counts_from_its_last_answer() -> None:
    away = OftenAway(0, Unavailable("away"))
    assert (await follower(away).settled("1", wait_s=None, on_progress=None)).state == "reserved"
    assert away.now_s > 2 * AWAY_S_MAX


async def test_the_waiting_list_leaves_out_what_is_only_being_decided(broker: Broker) -> None:
    async with connected(broker) as client:
        asked = await client.book("caltech/onyx", duration="1h", wait_s=0)
        assert (asked.state, asked.waiting) == ("open", None)
        assert await client.waiting_list() == ()


async def test_no_event_between_the_first_look_and_the_next_is_missed(broker: Broker) -> None:
    broker.courses.append(list(TWO_STEPS))
    async with connected(broker) as client:
        await client.book("caltech/onyx", duration="1h", wait_s=None)
    after_booking = [name for name, _ in broker.seen][1:]
    assert after_booking[:2] == ["watch", "show"]
