"""A bound on the connections of a server that unknown callers cannot use up.

Every connection costs a file descriptor, and a process without descriptors can neither accept a client nor
reach its own store. So the number of connections has a maximum. When it is reached, the least valuable
connection makes room for the next: first an idle one of an unknown caller. A connection is known once one
of its requests was authenticated. Among equal ones, the party with the most connections gives up its
oldest: unknown callers count by their addresses, users by their names. A request in progress of a known
user is cut off only if that user has more than half of all connections.
"""

from __future__ import annotations

import contextlib
import ipaddress
import resource
from collections.abc import Callable, Iterator
from typing import Final

from kalends.serving.metrics import Metrics

FIRST_REQUEST_S: Final = 10.0
"""Time for the first request to arrive, enough for any usable connection."""

CALM_S: Final = 60.0
"""Connections are crowded until none was closed for this time, so that there is one alarm, not many."""


class Connection:
    """One accepted connection; `close` ends it at once."""

    __slots__ = ("close", "has_asked", "is_known", "party", "requests", "since_s")

    def __init__(self, close: Callable[[], None], party: str, now_s: float) -> None:
        self.close = close
        self.party = party
        """The party that it counts for: its address, or after authentication, its user."""
        self.since_s = now_s
        """Time at which it was accepted, or its last request began or ended."""
        self.has_asked = False
        self.is_known = False
        self.requests = 0
        """Requests in progress; a session is a long request."""


class Connections:
    """The connections of one application, at most `connections_max`; times are monotonic.

    `tell` gets the reason once when connections are closed or refused, and "" after `CALM_S` without that.
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
        """Connections by (known, busy), in the order in which they make room; the oldest of a party first."""
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
        """Return the new connection from `host`, which `close` ends; None if there is no room."""
        now_s = self._monotonic_s()
        if len(self) >= self.connections_max and not self._make_room(now_s):
            return None
        connection = Connection(close, neighbourhood(host), now_s)
        self._put(connection)
        return connection

    def ready(self, connection: Connection, transport: object) -> None:
        """Use `transport` as the name of `connection` in requests from now on."""
        self._of[transport] = connection

    def lost(self, connection: Connection, transport: object = None) -> None:
        """Remove `connection`, which has ended."""
        self._take(connection)
        self._of.pop(transport, None)

    @contextlib.contextmanager
    def at_work(self, transport: object) -> Iterator[None]:
        """Count a request in progress on `transport` as long as the context lasts."""
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
        """Take note that a request on `transport` was authenticated, as that of `user` if given."""
        connection = self._of.get(transport)
        if connection is None:
            return
        party = user or connection.party
        if not (connection.is_known and connection.party == party):
            self._move(connection, known_as=party)

    def starved(self, reason: str) -> None:
        """Report that the operating system refuses all connections, for `reason`."""
        self._is_crowded(f"no connection can be accepted: {reason}")

    def look_around(self) -> None:
        """Close connections whose first request is overdue; to be called about every second."""
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
        """Put `connection` into its rank, as the youngest; an ended one is not added."""
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
        """Remove `connection`; return false if it is not there."""
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


def neighbourhood(host: str) -> str:
    """Return the range of one unknown caller: an IPv4 address, or the 64 bits of an IPv6 network.

    A caller with one address of such a network has all of them. A text that is not an address is returned
    as it is.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


CONNECTIONS_MAX: Final = 4_096
"""Several for each of the thousand sessions; idle ones beyond it would only cost memory."""

DESCRIPTORS_MAX: Final = 65_536
"""The maximum that is requested of the system, because nothing here would use more."""


def raise_descriptors() -> int:
    """Raise the soft limit of descriptors to the hard one, and return the new limit.

    The soft limit is kept low for programs that use select(2); no kalends server does (systemd.exec(5),
    `LimitNOFILE`).
    """
    soft, hard = (_bounded(limit) for limit in resource.getrlimit(resource.RLIMIT_NOFILE))
    if soft < hard:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (hard, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        )
    return max(soft, hard)


def for_connections(descriptors: int, servers: int) -> int:
    """Return how many connections each of `servers` may have in a process with `descriptors`.

    A quarter stays for other uses: stores, links to other owners' servers, sandboxes of agents.
    """
    return max(1, min(CONNECTIONS_MAX, (descriptors - descriptors // 4) // servers))


def _bounded(limit: int) -> int:
    return DESCRIPTORS_MAX if limit == resource.RLIM_INFINITY else min(limit, DESCRIPTORS_MAX)
