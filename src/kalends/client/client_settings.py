"""Settings of a client: its server, identity and zone, and its sources of time and randomness."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from kalends.client.calls import CallSender
from kalends.client.transports.late_transport import LateTransport, TokenSource
from kalends.client.transports.retry import Backoff
from kalends.client.transports.transport import Access, Transport
from kalends.core.identifiers import request_id

TransportName = Literal["session", "http"]


def _new_key() -> str:
    """Return a unique key. It begins with the time, so that a broker finds its row among the
    newest, not anywhere in its index."""
    return request_id(time.time_ns() // 1_000_000, secrets.randbits(74))


class Surroundings(NamedTuple):
    """Clocks and randomness, which tests replace: `clock` gives seconds that never go back, `wall_clock` is
    UTC, `fraction` random numbers in [0, 1)."""

    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    fraction: Callable[[], float] = random.random
    new_key: Callable[[], str] = _new_key


@dataclass(frozen=True)
class ClientSettings:
    """Connection settings of a client: a call takes at most `timeout_s` beyond the wait that it asks for.

    `token`, if there is one, is called for the token whenever the client connects, and when the token is
    about to expire.
    """

    access: Access
    zone: ZoneInfo
    timeout_s: float
    transport: TransportName
    backoff: Backoff
    surroundings: Surroundings = field(default_factory=Surroundings)
    token: TokenSource | None = None
    unanswered: list[str] | None = None
    """Filled with the names of calls that may change something, until their answers arrive."""

    def open_transport(self) -> Transport:
        """Open the transport. Raises `InvalidInput`."""
        if self.token is None:
            return self._transport(self.access)
        return LateTransport(
            lambda token: self._transport(replace(self.access, token=token)),
            self.token,
            self.surroundings.wall_clock,
        )

    def _transport(self, access: Access) -> Transport:
        """Return the class of the transport; only that one is imported."""
        if self.transport == "session":
            from kalends.client.transports.session import SessionTransport

            return SessionTransport(access)
        from kalends.client.transports.http import HttpTransport

        return HttpTransport(access)

    def sender(self, over: Transport) -> CallSender:
        """Return the sender of calls over an open transport."""
        around = self.surroundings
        return CallSender(
            over,
            url=self.access.url,
            timeout_s=self.timeout_s,
            backoff=self.backoff,
            clock=around.clock,
            sleep=around.sleep,
            fraction=around.fraction,
            zone=self.zone,
            unanswered=self.unanswered,
        )
