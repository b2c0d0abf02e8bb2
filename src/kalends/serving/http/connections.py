"""A bound on the connections of a server that strangers cannot use up.

Every connection costs a file descriptor, and a process that has none left can neither accept a customer
nor reach its own store. So there is a greatest number of connections, and when it is reached the least
valuable one makes room for the next: an idle one of somebody unknown first. A connection is known once one of
its requests was authenticated. Among equals, whoever has most of them makes room, with the oldest: strangers
count by where they come from, users by their names. A request in progress of somebody known is cut off only
where that is a user who has more than half of all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from kalends.serving.http.addresses import neighbourhood
from kalends.serving.metrics import Metrics

FIRST_REQUEST_S: Final = 10.0
"""The first request has arrived by then, over any line that is good enough to book over."""

CALM_S: Final = 60.0
"""Connections are crowded until nobody has had to go for this long: one alarm, not one for each flood."""


class Connection:
    """One accepted connection; `close` ends it at once."""

    __slots__ = ("close", "has_asked", "is_known", "party", "requests", "since_s")

    def __init__(self, close: Callable[[], None], party: str, now_s: float) -> None:
        self.close = close
        self.party = party
        """Whom it counts for: where it comes from, or once that is known, its user."""
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
        self._ranks: dict[tuple[bool, bool], dict[str, dict[Connection, None]]] = {
            rank: {} for rank in ((False, False), (False, True), (True, False), (True, True))
        }
        """By (known, busy), in the order in which they make room; those of a party with the oldest first."""
        self._number = 0
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
        return self._number

    def admit(self, close: Callable[[], None], host: str) -> Connection | None:
        """Return the new connection from `host` that `close` ends; `None` if no room can be made for it."""
        now_s = self._monotonic_s()
        if len(self) >= self.connections_max and not self._make_room(now_s):
            return None
        connection = Connection(close, neighbourhood(host), now_s)
        self._put(connection)
        return connection

    def ready(self, connection: Connection, transport: object) -> None:
        """From now on `transport` stands for `connection` in requests."""
        self._of[transport] = connection

    def lost(self, connection: Connection, transport: object = None) -> None:
        """`connection` is over, whoever ended it."""
        self._take(connection)
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

    def known(self, transport: object, user: str = "") -> None:
        """A request on `transport` has been authenticated, as that of `user` if that is said."""
        connection = self._of.get(transport)
        if connection is None:
            return
        party = user or connection.party
        if not (connection.is_known and connection.party == party):
            self._move(connection, known_as=party)

    def starved(self, reason: str) -> None:
        """Nothing can be accepted at all: the operating system refuses, for `reason`."""
        self._is_crowded(f"no connection can be accepted: {reason}")

    def look_around(self) -> None:
        """Close connections whose first request is overdue; to be called every second or so."""
        now_s = self._monotonic_s()
        silent = [
            each
            for connections in self._ranks[False, False].values()
            for each in connections
            if not each.has_asked and each.since_s + FIRST_REQUEST_S <= now_s
        ]
        for connection in silent:
            self._end(connection, "silent")
        if self._crowded_s is not None and now_s - self._crowded_s >= CALM_S:
            self._crowded_s = None
            self._tell("")

    def _make_room(self, now_s: float) -> bool:
        self._is_crowded(
            f"{self.connections_max} connections are open, the maximum of this server:"
            " new ones replace idle ones, those of unknown callers first"
        )
        for (is_known, is_busy), parties in self._ranks.items():
            most = max(parties.values(), key=len, default={})
            if len(most) > (self.connections_max // 2 if is_known and is_busy else 0):
                self._end(next(iter(most)), "crowded")
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
        self, connection: Connection, *, known_as: str = "", requests: int | None = None
    ) -> None:
        """Put `connection` where it now belongs, as the youngest; one that is over stays away."""
        was_there = self._take(connection)
        if known_as:
            connection.is_known, connection.party = True, known_as
        if requests is not None:
            connection.requests = requests
        if was_there:
            self._put(connection)

    def _put(self, connection: Connection) -> None:
        self._rank(connection).setdefault(connection.party, {})[connection] = None
        self._number += 1

    def _take(self, connection: Connection) -> bool:
        """Take `connection` out; False when it is not there any more."""
        parties = self._rank(connection)
        of_party = parties.get(connection.party, {})
        if connection not in of_party:
            return False
        del of_party[connection]
        if not of_party:
            del parties[connection.party]
        self._number -= 1
        return True

    def _rank(self, connection: Connection) -> dict[str, dict[Connection, None]]:
        return self._ranks[connection.is_known, connection.requests > 0]
