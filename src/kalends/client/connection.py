"""`kalends.connect`: how a client finds its server, its zone, its clocks and its chances."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from kalends.client.calls import CallSender
from kalends.client.client import Client
from kalends.client.retry import Backoff
from kalends.client.transport import Access, Transport
from kalends.client.zones import local_zone
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import request_id
from kalends.core.times import zone_named

TransportName = Literal["session", "http"]


def _new_key() -> str:
    """Return a unique key. It begins with the time, so that a broker finds its row among the
    newest, not anywhere in its index."""
    return request_id(time.time_ns() // 1_000_000, secrets.randbits(74))


def connect(
    url: str,
    *,
    token: str = "",
    user: str = "",
    groups: tuple[str, ...] = (),
    ca: str = "",
    zone: str = "",
    timeout_s: float = 30.0,
    transport: TransportName = "session",
    backoff: Backoff | None = None,
    clock: Callable[[], float] = time.monotonic,
    wall_clock: Callable[[], float] = time.time,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    fraction: Callable[[], float] = random.random,
    new_key: Callable[[], str] = _new_key,
) -> Client:
    """Return a client of the broker or site at `url`, to be used as ``async with connect(url) as client``.

    Nothing is sent yet. `token` is sent where the server asks for one; `user` and `groups` name the
    caller to a server in open mode. `ca` is a file of certificates to trust. Times given as text are
    read in `zone` (an IANA name; default this computer's). A call takes at most `timeout_s` beyond
    the wait it asks for, retries included. `transport` "session" sends many calls over one
    WebSocket, "http" each in a request of its own. The rest are clocks and chances, for tests.

    Raises `InvalidInput` for an address, a zone or a file that cannot be used.
    """
    access = Access(url=url, token=token, user=user, groups=groups, ca=ca)
    if transport not in ("session", "http"):
        raise InvalidInput(
            f"{transport!r} is not a transport", where="transport", remedy="give session or http"
        )
    return Client(
        open_transport=lambda: _open_transport(transport, access),
        zone=zone_named(zone) if zone else local_zone(),
        wall_clock=wall_clock,
        clock=clock,
        sleep=sleep,
        new_key=new_key,
        make_caller=lambda over: CallSender(
            over,
            url=url,
            timeout_s=timeout_s,
            backoff=backoff or Backoff(),
            clock=clock,
            sleep=sleep,
            fraction=fraction,
        ),
    )


def _open_transport(name: TransportName, access: Access) -> Transport:
    """Open the transport, importing only the one that is used."""
    if name == "session":
        from kalends.client.session import SessionTransport

        return SessionTransport(access)
    from kalends.client.http import HttpTransport

    return HttpTransport(access)
