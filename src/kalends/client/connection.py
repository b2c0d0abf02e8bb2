"""`kalends.connect`: how a client finds its server, its zone, its clocks and its chances."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Literal

from kalends.client.caller_identity import login_name, proof
from kalends.client.calls import CallSender
from kalends.client.client import Client
from kalends.client.destinations import Destination, destination
from kalends.client.retry import Backoff
from kalends.client.transport import Access, Transport
from kalends.client.zones import local_zone
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import request_id
from kalends.core.times import zone_named

TransportName = Literal["session", "http"]

TokenSource = Callable[[], Awaitable[str]]
"""Returns a token that is good now."""


def _new_key() -> str:
    """Return a unique key. It begins with the time, so that a broker finds its row among the
    newest, not anywhere in its index."""
    return request_id(time.time_ns() // 1_000_000, secrets.randbits(74))


def connect(
    url: str | None = None,
    *,
    profile: str = "",
    token: str | TokenSource = "",
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

    Without `url`, or with a `profile`, it is of the server that the command line would call, with the same
    token, zone and certificates: arguments win over the environment, and that over the user's profile.

    Nothing is sent yet. `token` is sent where the server asks for one: a text, or a function that is asked
    for one whenever the client is opened. `user` and `groups` name the caller to a server in open mode. `ca`
    is a file of certificates to trust. Times given as text are read in `zone` (an IANA name; default this
    computer's). A call takes at most `timeout_s` beyond the wait it asks for, retries included. `transport`
    "session" sends many calls over one WebSocket, "http" each in a request of its own. The rest are clocks
    and chances, for tests.

    Raises `InvalidInput` for an address, a zone or a file that cannot be used.
    """
    meant = _meant(profile, url, token, user, ca, zone)
    token = token or proof(
        meant.token, meant.token_file, meant.login, meant.sources.get("token_file", "")
    )
    known = token if isinstance(token, str) else ""
    access = Access(url=meant.broker, token=known, user=meant.user, groups=groups, ca=meant.ca)
    if transport not in ("session", "http"):
        raise InvalidInput(
            f"{transport!r} is not a transport", where="transport", remedy="give session or http"
        )
    return Client(
        open_transport=lambda: _open_transport(transport, access, token),
        zone=zone_named(meant.zone) if meant.zone else local_zone(),
        wall_clock=wall_clock,
        clock=clock,
        sleep=sleep,
        new_key=new_key,
        make_caller=lambda over: CallSender(
            over,
            url=meant.broker,
            timeout_s=timeout_s,
            backoff=backoff or Backoff(),
            clock=clock,
            sleep=sleep,
            fraction=fraction,
        ),
    )


async def _open_transport(
    name: TransportName, access: Access, token: str | TokenSource
) -> Transport:
    """Open the transport, importing only the one that is used."""
    if not isinstance(token, str):
        access = replace(access, token=await token())
    if name == "session":
        from kalends.client.session import SessionTransport

        return SessionTransport(access)
    from kalends.client.http import HttpTransport

    return HttpTransport(access)


def _meant(
    profile: str, url: str | None, token: str | TokenSource, user: str, ca: str, zone: str
) -> Destination:
    """Return what is meant by these arguments; without an address, by the environment and a profile, too."""
    known = token if isinstance(token, str) else ""
    if url is not None and not profile:
        return Destination(url, token=known, user=user, zone=zone, ca=ca)
    given = {"profile": profile, "user": user, "ca": ca, "zone": zone, "token": known}
    given = {name: text for name, text in given.items() if text}
    if url is not None:
        # Also an empty one: a variable that is not set shall not call another server by mistake.
        given["broker"] = url
    meant = destination(given, os.environ)
    return meant if meant.user else replace(meant, user=login_name())
