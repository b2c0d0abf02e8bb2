"""Who stays connected: strangers make room, customers do not, and an operator hears of it once."""

from __future__ import annotations

import asyncio
import contextlib
import re
import resource
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

from prometheus_client import generate_latest
from serving_support import ANNA, Deeds, ManualClock
from test_serving_runner import certificate

from kalends.contract.versions import own_version
from kalends.serving.auth.callers import OpenAccess
from kalends.serving.http.application import build_application, connections_of
from kalends.serving.http.connections import (
    CALM_S,
    CONNECTIONS_MAX,
    FIRST_REQUEST_S,
    Connections,
    for_connections,
    raise_descriptors,
)
from kalends.serving.http.runner import Listener, Service, listen, tls_context
from kalends.serving.logs import get_logger
from kalends.serving.metrics import Metrics


class Crowd:
    """Connections of a server for three, with names; `closed` are those that the server ended."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.told: list[str] = []
        self.closed: list[str] = []
        self.metrics = Metrics(role="site", name="sdsc", version="1")
        self.connections = Connections(3, self.clock.monotonic_s, self.told.append, self.metrics)

    def comes(self, *names: str, host: str = "192.0.2.1") -> None:
        for name in names:
            connection = self.connections.admit(partial(self.closed.append, name), host)
            if connection is None:
                self.closed.append(name)
            else:
                self.connections.ready(connection, name)

    def asks(self, name: str, *, known: bool = False) -> None:
        with self.connections.at_work(name):
            if known:
                self.connections.known(name, name)

    def counted(self, reason: str) -> float:
        text = generate_latest(self.metrics.registry).decode()
        found = re.search(rf'kalends_connections_closed_total{{reason="{reason}"}} (\S+)', text)
        return float(found[1]) if found else 0.0


def test_the_oldest_idle_stranger_makes_room() -> None:
    crowd = Crowd()
    crowd.comes("customer", "one", "two")
    crowd.asks("customer", known=True)
    crowd.comes("three", "four")
    assert crowd.closed == ["one", "two"]
    assert len(crowd.connections) == 3
    assert crowd.counted("crowded") == 2


def test_idle_customers_make_room_only_when_no_stranger_is_left() -> None:
    crowd = Crowd()
    crowd.comes("ann", "bob", "stranger")
    crowd.asks("ann", known=True)
    crowd.asks("bob", known=True)
    with crowd.connections.at_work("stranger"):
        crowd.comes("new")
        assert crowd.closed == ["stranger"]
        crowd.asks("new", known=True)
        crowd.comes("newer")
    assert crowd.closed == ["stranger", "ann"]


def test_a_request_of_a_customer_is_never_cut_off_for_another() -> None:
    crowd = Crowd()
    crowd.comes("ann", "bob", "eve")
    with (
        crowd.connections.at_work("ann"),
        crowd.connections.at_work("bob"),
        crowd.connections.at_work("eve"),
    ):
        for name in ("ann", "bob", "eve"):
            crowd.connections.known(name, name)
        crowd.comes("new")
    assert crowd.closed == ["new"]
    assert crowd.counted("refused") == 1


def test_of_strangers_those_make_room_who_come_from_where_most_come_from() -> None:
    crowd = Crowd()
    crowd.comes("only one", host="198.51.100.7")
    crowd.comes(*(f"flood {number}" for number in range(5)), host="2001:db8::1")
    crowd.comes("flood 5", host="2001:db8::2")
    assert crowd.closed == [f"flood {number}" for number in range(4)]


def test_a_user_who_has_more_than_half_of_all_makes_room_even_with_requests_in_progress() -> None:
    crowd = Crowd()
    crowd.comes("one", "two", "ann")
    with contextlib.ExitStack() as requests:
        for name in ("one", "two", "ann"):
            requests.enter_context(crowd.connections.at_work(name))
            crowd.connections.known(name, "ann" if name == "ann" else "greedy")
        crowd.comes("new")
        assert crowd.closed == ["one"]
        assert len(crowd.connections) == 3


def test_who_asks_nothing_in_time_is_closed_and_who_has_asked_stays() -> None:
    crowd = Crowd()
    crowd.comes("silent", "monitor")
    crowd.asks("monitor")
    crowd.clock.now_s += FIRST_REQUEST_S
    crowd.comes("new")
    crowd.connections.look_around()
    assert crowd.closed == ["silent"]
    assert crowd.counted("silent") == 1
    assert crowd.told == []


def test_a_flood_is_one_alarm_that_ends_when_it_is_over() -> None:
    crowd = Crowd()
    for number in range(50):
        crowd.comes(f"stranger {number}")
        crowd.asks(f"stranger {number}")
        crowd.connections.look_around()
        crowd.clock.now_s += CALM_S / 2
    (alarm,) = crowd.told
    assert "3 connections are open" in alarm
    crowd.clock.now_s += CALM_S
    crowd.connections.look_around()
    assert crowd.told == [alarm, ""]
    crowd.connections.starved("no file descriptors left")
    assert "no file descriptors left" in crowd.told[2]


def test_descriptors_are_kept_for_the_servers_own_use() -> None:
    assert for_connections(1_024, 1) == 768
    assert for_connections(1_024, 2) == 384
    assert for_connections(1_000_000, 1) == CONNECTIONS_MAX
    assert for_connections(1, 2) == 1


def test_the_soft_limit_of_descriptors_is_raised() -> None:
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        assert raise_descriptors() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= soft
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def served(
    connections_max: int, tls: ssl.SSLContext | None = None
) -> tuple[Listener, Callable[[], int]]:
    """A site that keeps so many connections, and how many it has."""
    application = build_application(
        role="site", name="sdsc", version=own_version("1"), handlers=Deeds().handlers("site"),
        authenticator=OpenAccess(), metrics=Metrics(role="site", name="sdsc", version="1"),
        logger=get_logger(role="site", name="sdsc"),
    )  # fmt: skip
    listening = await listen(Service("site sdsc", application, "127.0.0.1:0", tls), connections_max)
    return listening, connections_of(application).__len__


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A customer's request is answered on this connection."""
    named = "".join(f"{name}: {value}\r\n" for name, value in ANNA.items())
    writer.write(f"GET /v1/resources HTTP/1.1\r\nHost: 127.0.0.1\r\n{named}\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    assert length is not None
    await reader.readexactly(int(length[1]))
    assert head.startswith(b"HTTP/1.1 200 "), head


async def test_a_customer_keeps_the_connection_and_another_comes_through_a_crowd() -> None:
    listening, count = await served(4)
    host, port = listening.url.removeprefix("http://").split(":")
    customer = await asyncio.open_connection(host, int(port))
    strangers = []
    for _ in range(3):
        await ask(*customer)
        strangers += [await asyncio.open_connection(host, int(port)) for _ in range(10)]
    other = await asyncio.open_connection(host, int(port))
    await ask(*other)
    await ask(*customer)
    assert count() == 4
    for _, writer in (customer, other, *strangers):
        writer.close()
    await listening.stop()
    assert count() == 0


async def test_strangers_that_begin_no_handshake_make_room_too(tmp_path: Path) -> None:
    pem, key = certificate(tmp_path)
    listening, count = await served(3, tls_context(pem, key))
    host, port = listening.url.removeprefix("https://").split(":")
    silent = [await asyncio.open_connection(host, int(port)) for _ in range(12)]
    trusting = ssl.create_default_context(cafile=str(pem))
    customer = await asyncio.open_connection(host, int(port), ssl=trusting)
    await ask(*customer)
    assert await silent[0][0].read() == b""
    assert count() == 3
    for _, writer in (customer, *silent):
        writer.close()
    await listening.stop()
    assert count() == 0
