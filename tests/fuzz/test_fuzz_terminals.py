"""Hostile frames at the terminals of jobs (``/v1/terminals``): they end their own session, and nothing else.

One of anna's jobs runs at each facility's site beta. After everything it still hears what she types.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import aiohttp
import msgpack
import pytest
from aiohttp import WSCloseCode
from fuzz_servers import Facility, Server, closing
from fuzz_values import SCRAPS, VALUES, mutated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.patience import PATIENCE_S

from kalends.core.limits import FRAME_BYTES_MAX

pytestmark = pytest.mark.usefixtures("untouched")

MACHINE = "beta/press"
ECHO = 'stty -echo -icanon; echo ready; while IFS= read -r line; do echo "<$line>"; done'
KEYS_BYTES_MAX = 32 * 1024
SESSIONS_OF_USER_MAX = 64
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
FRAMES: list[dict[str, Any]] = [
    {"kind": "keys", "data": b"x"},
    {"kind": "window-size", "rows": 30, "columns": 90},
]
"""Well-formed, and harmless from an onlooker. The end of input is not among them: it would end the job."""

Talk = Callable[[aiohttp.ClientWebSocketResponse[bool]], Awaitable[Any]]


def beta(place: Facility) -> Server:
    return place.servers["beta"]


def ask(place: Facility, path: str, fields: dict[str, Any]) -> dict[str, Any]:
    server = beta(place)
    answer = server.post(path, fields, place.headers("anna", server, "use"))
    assert answer.status == 200, answer
    value: dict[str, Any] = answer.value()
    return value


@pytest.fixture(scope="module")
def jobs(facilities: dict[str, Facility]) -> Iterator[dict[str, int]]:
    """The number of a job with a terminal at each facility."""
    numbers = {}
    for way, each in facilities.items():
        job = {
            "machine": MACHINE, "limit_s": 3_600, "directory": "/tmp", "terminal": True,
            "command": ["/bin/bash", "-c", ECHO],
        }  # fmt: skip
        made = ask(each, "/v1/jobs", {"key": f"the-{way}-job", "job": job})
        numbers[way] = made["job"]["job"]
        name = {"machine": MACHINE, "job": numbers[way]}
        until_s = time.monotonic() + PATIENCE_S
        while (view := ask(each, "/v1/jobs/show", name))["phase"] != "running":
            assert not view.get("end"), view
            assert time.monotonic() < until_s, view
            # A bounded poll: the site is a process, and this fixture is no coroutine that it could wake.
            time.sleep(0.05)
    yield numbers
    for way, each in facilities.items():
        ask(each, "/v1/jobs/change", {"machine": MACHINE, "job": numbers[way], "what": "kill"})


@pytest.fixture
def number(jobs: dict[str, int], place: Facility) -> int:
    return jobs["tokens" if place.tokens else "open"]


def wish(number: int, **more: Any) -> dict[str, Any]:
    return {"kind": "attach", "machine": MACHINE, "job": number, **more}


def at_terminals(place: Facility, talk: Talk, user: str = "anna") -> Any:
    """`talk` on a new session, and its result."""

    async def run() -> Any:
        server = beta(place)
        url = f"{server.url}/v1/terminals"
        headers = place.headers(user, server, "use")
        async with (
            asyncio.timeout(PATIENCE_S),
            aiohttp.ClientSession() as http,
            http.ws_connect(url, headers=headers, max_msg_size=0) as socket,
        ):
            return await talk(socket)

    return asyncio.run(run())


def close_after(place: Facility, *frames: Any) -> tuple[int, str]:
    """How the server closes after frames: bytes and texts as they are, others as MessagePack."""

    async def talk(socket: aiohttp.ClientWebSocketResponse[bool]) -> tuple[int, str]:
        for each in frames:
            if isinstance(each, str):
                await socket.send_str(each)
            else:
                await socket.send_bytes(each if isinstance(each, bytes) else msgpack.packb(each))
        return await closing(socket)

    closed: tuple[int, str] = at_terminals(place, talk)
    return closed


def hears(place: Facility, number: int, text: bytes = b"still here") -> bool:
    """Whether the job hears what its user types, once it has taken what was typed before."""

    async def talk(socket: aiohttp.ClientWebSocketResponse[bool]) -> bool:
        await socket.send_bytes(msgpack.packb(wish(number, keys=True)))
        seen, typed = b"", False
        while b"<" + text + b">" not in seen:
            frame = msgpack.unpackb(await socket.receive_bytes())
            if frame["kind"] in ("history", "output"):
                seen += frame["data"]
            elif frame["kind"] == "seat" and frame["keys"] and not frame["pending"] and not typed:
                typed = True
                await socket.send_bytes(
                    msgpack.packb({"kind": "keys", "data": b"\n" + text + b"\n"})
                )
        return typed

    return bool(at_terminals(place, talk))


@pytest.mark.parametrize("scrap", SCRAPS, ids=range(len(SCRAPS)))
def test_a_broken_frame_closes_the_session_with_a_code_and_a_place(
    scrap: bytes, place: Facility, number: int
) -> None:
    for frames in ((scrap,), (wish(number), scrap)):
        code, reason = close_after(place, *frames)
        assert code == WSCloseCode.INVALID_TEXT, reason
        assert ": " in reason


def test_a_text_frame_closes_the_session(place: Facility, number: int) -> None:
    for frames in (("[]",), (wish(number), "{}")):
        expected = (WSCloseCode.UNSUPPORTED_DATA, "frames are binary: MessagePack")
        assert close_after(place, *frames) == expected


@pytest.mark.parametrize(
    ("changes", "where"),
    [({"machine": "press"}, "machine"), ({"machine": "beta/press\n"}, "machine"),
     ({"job": 0}, "job"), ({"job": True}, "job"), ({"job": 1 << 54}, "job"), ({"job": "1"}, "job"),
     ({"rows": 0}, "rows"), ({"columns": 10_001}, "columns"), ({"seat": "x" * 65}, "seat"),
     ({"keys": 1}, "keys"), ({"kind": "keys"}, "kind"), ({"kind": 7}, "kind"), ({"more": 1}, "body")],
)  # fmt: skip
def test_a_wrong_field_of_a_wish_is_named(
    changes: dict[str, Any], where: str, place: Facility, number: int
) -> None:
    code, reason = close_after(place, {**wish(number), **changes})
    assert code == WSCloseCode.INVALID_TEXT
    assert reason.startswith(f"{where}: "), reason


@pytest.mark.parametrize(
    ("frame", "where"),
    [({"kind": "keys"}, "body"), ({"kind": "keys", "data": "x"}, "data"),
     ({"kind": "keys", "data": b"x" * (KEYS_BYTES_MAX + 1)}, "data"),
     ({"kind": "keys", "data": b"x", "more": 1}, "body"), ({"kind": "window-size", "rows": 1}, "body"),
     ({"kind": "window-size", "rows": 0, "columns": 1}, "rows"), ({"kind": "output"}, "kind"),
     ({"kind": "attach", "machine": MACHINE, "job": 1}, "kind"), ({}, "body")],
)  # fmt: skip
def test_a_wrong_field_of_a_frame_is_named(
    frame: dict[str, Any], where: str, place: Facility, number: int
) -> None:
    code, reason = close_after(place, wish(number), frame)
    assert code == WSCloseCode.INVALID_TEXT
    assert reason.startswith(f"{where}: "), reason


def test_a_frame_beyond_the_limit_closes_the_session_before_it_is_sent(
    place: Facility, number: int
) -> None:
    async def talk(socket: aiohttp.ClientWebSocketResponse[bool]) -> tuple[int, str]:
        await socket.send_bytes(msgpack.packb(wish(number)))
        head = b"\x82\xff" + (FRAME_BYTES_MAX + 1).to_bytes(8) + bytes(4)
        socket._writer.transport.write(head)
        return await closing(socket)

    code, _ = at_terminals(place, talk)
    assert code == WSCloseCode.MESSAGE_TOO_BIG


def test_a_stranger_is_refused_whatever_they_ask_for(
    closed: Facility, jobs: dict[str, int]
) -> None:
    async def refusal(socket: aiohttp.ClientWebSocketResponse[bool]) -> tuple[str, int]:
        await socket.send_bytes(msgpack.packb(asked))
        said = msgpack.unpackb(await socket.receive_bytes())
        assert said["kind"] == "refusal"
        code, _ = await closing(socket)
        return said["problem"]["code"], code

    for more in ({}, {"keys": True}, {"keys": True, "again": True}, {"again": True}):
        asked = wish(jobs["tokens"], **more)
        assert at_terminals(closed, refusal, "mallory") == ("not-allowed", WSCloseCode.OK)
    asked = wish(1_000_000)
    assert at_terminals(closed, refusal, "mallory") == ("not-found", WSCloseCode.OK)


def test_a_user_has_so_many_places_at_terminals_and_no_more(place: Facility) -> None:
    async def run() -> list[int]:
        server = beta(place)
        headers = place.headers("anna", server, "use")
        answers, opened = [], []
        async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as http:
            for _ in range(SESSIONS_OF_USER_MAX + 1):
                try:
                    opened.append(
                        await http.ws_connect(f"{server.url}/v1/terminals", headers=headers)
                    )
                    answers.append(101)
                except aiohttp.WSServerHandshakeError as error:
                    answers.append(error.status)
            others = place.headers("mallory", server, "use")
            await http.ws_connect(f"{server.url}/v1/terminals", headers=others)
        return answers

    assert asyncio.run(run()) == [101] * SESSIONS_OF_USER_MAX + [429]


@SHARED
@given(data=st.data())
def test_frames_that_are_nearly_right_close_the_session_or_do_no_harm(
    place: Facility, number: int, data: st.DataObject
) -> None:
    first = data.draw(st.just(wish(number)) | mutated(wish(number)))
    frames = data.draw(st.lists(st.sampled_from(FRAMES) | mutated(FRAMES[1]) | VALUES, max_size=4))

    async def talk(socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        for each in (first, *frames):
            await socket.send_bytes(msgpack.packb(each))
        await socket.send_bytes(b"\xc1")  # No MessagePack: at the latest this ends it.
        code, reason = await closing(socket)
        assert code in (WSCloseCode.INVALID_TEXT, WSCloseCode.OK), reason

    at_terminals(place, talk)


def test_after_all_that_the_job_hears_its_user(place: Facility, number: int) -> None:
    assert hears(place, number)


def test_keys_without_end_fill_nothing_and_the_job_goes_on(place: Facility, number: int) -> None:
    async def flood(socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        await socket.send_bytes(msgpack.packb(wish(number, keys=True)))
        keys = msgpack.packb({"kind": "keys", "data": b"\n" * KEYS_BYTES_MAX})
        for _ in range(200):
            await socket.send_bytes(keys)

    at_terminals(place, flood)
    assert hears(place, number, b"after the flood")
