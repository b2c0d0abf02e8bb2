"""The wait queue at a site: visits that wait for held slots, in order of their requests' stamps.

A place in line is soft: it lives as long as its broker repeats the visit, and a restart of the site
loses it. It keeps room (see `earmarks`) from everybody behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import takewhile

from sortedcontainers import SortedList

from kalends.contract import messages as m
from kalends.core.errors import Refusal
from kalends.resource_servers.participation.claims.earmarks import Earmarks, Order, Stretch
from kalends.resource_servers.participation.claims.occupancy import Piece

Seniority = tuple[int, str]
"""A request's stamp and id, whatever an owner's rules do for it in line: older ones recall younger ones."""


@dataclass(slots=True)
class QueueEntry:
    """One visit in line, with the room that it needs. Times are monotonic milliseconds.

    `refusals` say what it waits for. `yielded`: it has given up, once, what it held here; a head start
    in the line has been used then, so that those who are older get their turn.
    """

    visit: m.Visit
    asker: str
    order: Order
    pieces: tuple[Piece, ...]
    refusals: tuple[Refusal, ...]
    lease_ms: int
    yielded: bool = False

    @property
    def rid(self) -> str:
        return self.visit.rid

    @property
    def seniority(self) -> Seniority:
        return self.visit.stamp, self.visit.rid


@dataclass(slots=True)
class Holder:
    """A holder of claims here: where to reach it ("": not known yet), and what it asked for.

    `visit` is None where an agent has chosen. A person `considered` it: they have longer to answer
    when it is recalled. `recall_until_ms` (monotonic) is when it is taken back; 0: nobody asks.
    """

    asker: str
    visit: m.Visit | None = None
    considered: bool = False
    recall_until_ms: int = 0


class WaitQueue:
    """All places in line, at most one a request."""

    def __init__(self) -> None:
        self.earmarks = Earmarks()
        self._places: dict[str, QueueEntry] = {}
        self._leases = SortedList()
        """``(lease_ms, rid)`` of every place."""

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[QueueEntry]:
        return iter(list(self._places.values()))

    def get(self, rid: str) -> QueueEntry | None:
        return self._places.get(rid)

    def put(self, place: QueueEntry) -> None:
        """Take `place`, instead of any that its request had."""
        self.leave(place.rid)
        self._places[place.rid] = place
        self._leases.add((place.lease_ms, place.rid))
        self.earmarks.keep(place.rid, place.order, place.pieces)

    def leave(self, rid: str) -> QueueEntry | None:
        """The place that `rid` had, and has no more."""
        place = self._places.pop(rid, None)
        if place is not None:
            self._leases.remove((place.lease_ms, rid))
            self.earmarks.drop(rid)
        return place

    def renew(self, place: QueueEntry, asker: str, lease_ms: int) -> None:
        self._leases.remove((place.lease_ms, place.rid))
        place.asker, place.lease_ms = asker, lease_ms
        self._leases.add((lease_ms, place.rid))

    def touching(self, times: Collection[Stretch]) -> list[str]:
        """Return the requests that wait for something during one of `times`, in order."""
        return self.earmarks.touching(times)

    def ahead(self, rid: str) -> int:
        return self.earmarks.ahead(rid)

    def senior_pieces(self, place: QueueEntry) -> list[Piece]:
        """What those older than `place` wait for at the times of its pieces, whatever the order in line."""
        times = {(resource, start, end) for resource, start, end, _ in place.pieces}
        return [
            (resource, max(start, begin), min(end, finish), units)
            for rid in self.earmarks.touching(times)
            if self._places[rid].seniority < place.seniority
            for resource, begin, finish, units in self._places[rid].pieces
            for name, start, end, _ in place.pieces
            if name == resource and begin < end and start < finish
        ]

    def overdue(self, now_ms: int) -> list[QueueEntry]:
        """The places whose broker has been silent for too long; they stay until they `leave`."""
        due = takewhile(lambda each: each[0] <= now_ms, self._leases)
        return [self._places[rid] for _, rid in due]

    def next_lease_ms(self) -> int | None:
        return self._leases[0][0] if self._leases else None

    def count(self, user: str) -> int:
        """How many claims of `user` wait in line."""
        return sum(
            len(place.visit.wants)
            for place in self._places.values()
            if place.visit.principal.user == user
        )

    def check(self) -> None:
        """Raises `AssertionError` when the indexes disagree."""
        self.earmarks.check()
        assert list(self._leases) == sorted((p.lease_ms, p.rid) for p in self._places.values())
        assert len(self.earmarks) == len(self._places)
        for rid, place in self._places.items():
            assert self.earmarks.pieces(rid) == place.pieces
            assert self.earmarks.order(rid) == place.order
