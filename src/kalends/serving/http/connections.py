"""A bound on the connections of a server that strangers cannot use up.

Every connection costs a file descriptor, and a process that has none left can neither accept a customer
nor reach its own store. So there is a greatest number of connections, and when it is reached the least
valuable one makes room for the next: an idle one of somebody unknown first, the oldest of them. A
connection is known once one of its requests was authenticated; one with a request in progress of somebody
known is never closed for another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from kalends.serving.metrics import Metrics

FIRST_REQUEST_S: Final = 10.0
"""The first request has arrived by then, over any line that is good enough to book over."""

CALM_S: Final = 60.0
"""Connections are crowded until nobody has had to go for this long: one alarm, not one for each flood."""


class Connection:
    """One accepted connection; `close` ends it at once."""

    __slots__ = ("close", "has_asked", "is_known", "requests", "since_s")

    def __init__(self, close: Callable[[], None], now_s: float) -> None:
        self.close = close
        self.since_s = now_s
        """When it was accepted, or its last request began or ended."""
        self.has_asked = False
        self.is_known = False
        self.requests = 0
        """In progress; a session is a request that lasts."""


class Connections:
    """The connections of one application, at most `connections_max`; times are monotonic.

    `tell` hears once why connections are closed or refused, and "" when that has been over for `CALM_S`.
    """

    def __init__(
        self,
        connections_max: int,
        monotonic_s: Callable[[], float],
        tell: Callable[[str], None],
        metrics: Metrics,
    ) -> None:
        self.connections_max = connections_max
        self._monotonic_s = monotonic_s
        self._tell = tell
        self._ranks: dict[tuple[bool, bool], dict[Connection, None]] = {
            rank: {} for rank in ((False, False), (False, True), (True, False), (True, True))
        }
        """By (known, busy), in the order in which they make room; within a rank the oldest first."""
        self._of: dict[object, Connection] = {}
        self._crowded_s: float | None = None
        self._closed = metrics.counter(
            "kalends_connections_closed",
            "Connections that the server closed: crowded, refused, or silent.",
            ("reason",),
        )
        metrics.gauge("kalends_connections", "Open connections.", value=lambda: len(self))
        metrics.gauge(
            "kalends_connections_max", "The most of them.", value=lambda: self.connections_max
        )

    def __len__(self) -> int:
        return sum(map(len, self._ranks.values()))

    def admit(self, close: Callable[[], None]) -> Connection | None:
        """Return the new connection that `close` ends; `None` if there is no room, and none can be made."""
        now_s = self._monotonic_s()
        if len(self) >= self.connections_max and not self._make_room(now_s):
            return None
        connection = Connection(close, now_s)
        self._ranks[False, False][connection] = None
        return connection

    def ready(self, connection: Connection, transport: object) -> None:
        """From now on `transport` stands for `connection` in requests."""
        self._of[transport] = connection

    def lost(self, connection: Connection, transport: object = None) -> None:
        """`connection` is over, whoever ended it."""
        self._rank(connection).pop(connection, None)
        self._of.pop(transport, None)

    @contextlib.contextmanager
    def at_work(self, transport: object) -> Iterator[None]:
        """A request is in progress on `transport`."""
        connection = self._of.get(transport)
        if connection is None:
            yield
            return
        self._count(connection, 1)
        try:
            yield
        finally:
            self._count(connection, -1)

    def known(self, transport: object) -> None:
        """A request on `transport` has been authenticated."""
        connection = self._of.get(transport)
        if connection is not None and not connection.is_known:
            self._move(connection, is_known=True)

    def starved(self, reason: str) -> None:
        """Nothing can be accepted at all: the operating system refuses, for `reason`."""
        self._is_crowded(f"no connection can be accepted: {reason}")

    def look_around(self) -> None:
        """Close connections whose first request is overdue; to be called every second or so."""
        now_s = self._monotonic_s()
        silent = [
            each
            for each in self._ranks[False, False]
            if not each.has_asked and each.since_s + FIRST_REQUEST_S <= now_s
        ]
        for connection in silent:
            self._end(connection, "silent")
        if self._crowded_s is not None and now_s - self._crowded_s >= CALM_S:
            self._crowded_s = None
            self._tell("")

    def _make_room(self, now_s: float) -> bool:
        self._is_crowded(
            f"{self.connections_max} connections are open, the most that this server keeps:"
            " idle ones make room for new ones, those of strangers first"
        )
        for (is_known, is_busy), connections in self._ranks.items():
            if connections and not (is_known and is_busy):
                self._end(next(iter(connections)), "crowded")
                return True
        self._closed.labels("refused").inc()
        return False

    def _is_crowded(self, reason: str) -> None:
        if self._crowded_s is None:
            self._tell(reason)
        self._crowded_s = self._monotonic_s()

    def _end(self, connection: Connection, reason: str) -> None:
        self.lost(connection)
        self._closed.labels(reason).inc()
        connection.close()

    def _count(self, connection: Connection, more: int) -> None:
        self._move(connection, requests=connection.requests + more)
        connection.has_asked = True
        connection.since_s = self._monotonic_s()

    def _move(
        self, connection: Connection, *, is_known: bool | None = None, requests: int | None = None
    ) -> None:
        """Put `connection` where it now belongs, as the youngest; one that is over stays away."""
        was_there = connection in self._rank(connection)
        self._rank(connection).pop(connection, None)
        if is_known is not None:
            connection.is_known = is_known
        if requests is not None:
            connection.requests = requests
        if was_there:
            self._rank(connection)[connection] = None

    def _rank(self, connection: Connection) -> dict[Connection, None]:
        return self._ranks[connection.is_known, connection.requests > 0]
