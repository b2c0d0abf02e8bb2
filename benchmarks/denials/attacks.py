"""Denials of service, each a function that goes on until it is stopped; a program of its own.

    python -m benchmarks.denials.attacks NAME BROKER SITE

None of them has a key or a token: on loopback, in open mode, a user is whoever says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp
import msgspec

import kalends
from kalends.contract import codec
from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.errors import KalendsError
from kalends.core.identifiers import request_id
from kalends.serving.http.connections import raise_descriptors

GREEDY: Final = "greedy"
CONNECTIONS: Final = 6_000
SESSIONS: Final = 1_000
SEARCHES_AT_ONCE: Final = 20
QUESTIONS_AT_ONCE: Final = 16
GREEDY_ACCOUNTS: Final = 10
RUNS_OF_EACH: Final = 32
BUSY: Final = "def choose(view, request):\n    n = 0\n    while True:\n        n = n + 1\n"


async def connections(broker: str, site: str) -> None:
    """Come without asking for anything, half of them with the beginning of a request, and stay."""
    host, port = broker.removeprefix("http://").split(":")
    kept: list[socket.socket] = []
    number = 0
    while True:
        number += 1
        connection = socket.socket()
        connection.setblocking(False)
        try:
            await asyncio.wait_for(
                asyncio.get_running_loop().sock_connect(connection, (host, int(port))), 1
            )
            if number % 2:
                connection.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-")
            kept.append(connection)
        except (OSError, TimeoutError):
            connection.close()
            await asyncio.sleep(0.01)
        if len(kept) > CONNECTIONS:
            kept.pop(0).close()


async def questions(broker: str, site: str) -> None:
    """Ask about what never was: the broker what was decided, the site what it has promised."""

    def inquire() -> tuple[str, m.Message]:
        return f"{broker}/v1/inquire", m.Inquire(rid=_rid(), att=1, site="site0", secret="x" * 32)

    def peer_ask() -> tuple[str, m.Message]:
        until = int(time.time()) + 9 * 365 * 86_400
        return f"{site}/v1/peers", m.PeerAsk(
            rid=_rid(), att=1, site="x", secret="x" * 32, register="broker", until=until
        )

    async with aiohttp.ClientSession() as http:

        async def ask(question: Callable[[], tuple[str, m.Message]]) -> None:
            while True:
                url, message = question()
                body = codec.encode_msgpack(message)
                headers = {"Content-Type": codec.MSGPACK}
                with contextlib.suppress(aiohttp.ClientError):
                    async with http.post(url, data=body, headers=headers) as response:
                        await response.read()

        await asyncio.gather(
            *(ask(each) for each in (inquire, peer_ask) for _ in range(QUESTIONS_AT_ONCE))
        )


async def sessions(broker: str, site: str) -> None:
    """Open as many sessions as there are, and come back for those that end."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:

        async def hold() -> None:
            while True:
                with contextlib.suppress(aiohttp.ClientError, OSError):
                    async with http.ws_connect(
                        f"{broker}/v1/calls", headers={"Kalends-User": GREEDY}
                    ) as session:
                        await session.receive()
                await asyncio.sleep(1)

        await asyncio.gather(*(hold() for _ in range(SESSIONS)))


async def searches(broker: str, site: str) -> None:
    """Search for what is as hard to weigh as a legal request can be, many at once."""
    body = msgspec.json.encode({"request": _hard_request(), "count": 100, "explain": True})
    async with aiohttp.ClientSession() as http:

        async def search() -> None:
            headers = {"Kalends-User": GREEDY, "Content-Type": "application/json"}
            while True:
                with contextlib.suppress(aiohttp.ClientError, OSError):
                    async with http.post(f"{broker}/v1/find", data=body, headers=headers) as answer:
                        await answer.read()
                        if answer.status == 429:
                            await asyncio.sleep(0.2)

        await asyncio.gather(*(search() for _ in range(SEARCHES_AT_ONCE)))


async def bodies(broker: str, site: str) -> None:
    """Send bodies and frames that are refused, as large as may be: maps without anything in them."""
    headers = {"Kalends-User": GREEDY}

    def maps(number: int) -> bytes:
        return b"\xdd" + number.to_bytes(4, "big") + b"\x80" * number

    body = b"\x81\xa1a" + maps(limits.BODY_BYTES_MAX - 100)
    frame = maps(limits.FRAME_BYTES_MAX - 100)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:

        async def post() -> None:
            kind = {**headers, "Content-Type": codec.MSGPACK}
            while True:
                with contextlib.suppress(aiohttp.ClientError, OSError):
                    async with http.post(f"{broker}/v1/find", data=body, headers=kind) as answer:
                        await answer.read()

        async def send() -> None:
            while True:
                with contextlib.suppress(aiohttp.ClientError, OSError):
                    async with http.ws_connect(
                        f"{broker}/v1/calls", headers=headers, max_msg_size=0
                    ) as session:
                        await session.send_bytes(frame)
                        await session.receive()

        await asyncio.gather(*(post() for _ in range(4)), *(send() for _ in range(2)))


async def agents(broker: str, site: str) -> None:
    """Ten accounts that send scripts without an end, each as many as may wait."""

    async def account(number: int) -> None:
        async with kalends.connect(broker, user=f"{GREEDY}{number}", zone="UTC") as client:
            await client.upload_agent("busy", BUSY)

            async def run() -> None:
                while True:
                    try:
                        view = await client.book(
                            "site0/cluster:1",
                            duration="1h",
                            window=("now+4d", "now+5d"),
                            agent="busy",
                        )
                        await client.cancel(view.id)
                    except (KalendsError, TimeoutError):
                        await asyncio.sleep(0.2)

            await asyncio.gather(*(run() for _ in range(RUNS_OF_EACH)))

    await asyncio.gather(*(account(number) for number in range(GREEDY_ACCOUNTS)))


ATTACKS: Final[dict[str, Callable[[str, str], Awaitable[None]]]] = {
    each.__name__: each for each in (connections, questions, sessions, bodies, searches, agents)
}


def _rid() -> str:
    return request_id(int(time.time() * 1_000), secrets.randbits(74))


def _hard_request() -> dict[str, Any]:
    chance, now_s = random.Random(3), int(time.time()) // 60 * 60

    def term() -> dict[str, Any]:
        return {
            "attributes": [{"name": "kind", "operator": "=", "value": "cluster"}],
            "units": chance.randrange(1, 8), "units_max": 100, "units_weight": chance.random(),
            "offset_s": 60 * chance.randrange(4_000),
        }  # fmt: skip

    preferences = [
        {
            "start": now_s + n * 2_000, "end": now_s + n * 2_000 + chance.randrange(100, 9_000),
            "weight": chance.choice((-1, 1)) * chance.random(),
        }
        for n in range(400)
    ]  # fmt: skip
    alternatives = [
        {"terms": [term() for _ in range(4)], "weight": chance.random()} for _ in range(32)
    ]
    return {
        "alternatives": alternatives, "duration_s": 600, "not_before": now_s,
        "preferences": preferences,
    }  # fmt: skip


if __name__ == "__main__":
    raise_descriptors()
    asyncio.run(ATTACKS[sys.argv[1]](*sys.argv[2:4]))  # type: ignore[arg-type]  # a coroutine
