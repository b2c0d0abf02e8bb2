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
from kalends.client.inputs.request_builder import Time, period_s, start_s, time_s
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

    def new_key(self) -> str:
        """Return a key for one booking or change, to be stored before sending it."""
        return self.surroundings.new_key()

    def now_s(self) -> int:
        """Return the time of this computer in seconds UTC."""
        return int(self.surroundings.wall_clock())

    def time_s(self, when: Time, *, where: str = "time", exact: bool = False) -> int:
        """Return `when` (text in this client's zone, aware datetime, or seconds) in seconds UTC.

        With `exact`, a text that names a day also needs a time of day. `where` is the place in errors.
        """
        return time_s(when, now_s=self.now_s(), zone=self.zone, where=where, exact=exact)

    def period_s(self, start: Time, end: Time) -> tuple[int, int]:
        """Return both ends of a period in seconds UTC: ``17:00`` as `end` is the first one after the start.

        Raises `InvalidInput`, also if the end, as understood, is not after the start.
        """
        return period_s(start, end, now_s=self.now_s(), zone=self.zone)

    def start_s(self, at: Time, *, where: str = "at", exact: bool = True) -> int:
        """Return `when` like `time_s`, for a start: ``now+10m`` is rounded up to a full minute."""
        return start_s(at, now_s=self.now_s(), zone=self.zone, where=where, exact=exact)

    def open_transport(self) -> Transport:
        """Open the transport. Raises `InvalidInput`."""
        servers = self.access.servers()
        if len(servers) == 1:
            return self._to_server(servers[0])
        # Imported here because most users name one server.
        from kalends.client.transports.several import CONNECT_S_MAX, SeveralServers

        each = {access.url: self._to_server(access, CONNECT_S_MAX) for access in servers}
        return SeveralServers(each, self.surroundings.clock)

    def _to_server(self, access: Access, connect_s: float | None = None) -> Transport:
        if self.token is None:
            return self._transport(access, connect_s)
        return LateTransport(
            lambda token: self._transport(replace(access, token=token), connect_s),
            self.token,
            self.surroundings.wall_clock,
        )

    def _transport(self, access: Access, connect_s: float | None) -> Transport:
        """Return the class of the transport; only that one is imported."""
        if self.transport == "session":
            from kalends.client.transports.session import SessionTransport

            return SessionTransport(access, connect_s)
        from kalends.client.transports.http import HttpTransport

        return HttpTransport(access, connect_s)

    def sender(self, over: Transport) -> CallSender:
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
