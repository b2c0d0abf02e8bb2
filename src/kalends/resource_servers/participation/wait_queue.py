"""The line at a site: visits that wait for what others hold, in order of their requests' stamps.

A place in line is soft: it lives as long as its broker repeats the visit, and a restart of the site
loses it. It keeps room (see `keeping`) from everybody behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import takewhile

from sortedcontainers import SortedList

from kalends.contract import messages as m
from kalends.core.errors import Refusal
from kalends.resource_servers.participation.earmarks import Keeping, Order, Stretch
from kalends.resource_servers.participation.occupancy import Piece

Seniority = tuple[int, str]
"""A request's stamp and id, whatever an owner's rules do for it in line: older ones recall younger ones."""


@dataclass(slots=True)
class Place:
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
    """Who holds something here, for as long as it is held: where to reach them, and what they asked.

    `visit` is None where an agent has chosen. A person `considered` it: they have longer to answer
    when it is recalled. `recall_until_ms` (monotonic) is when it is taken back; 0: nobody asks.
    """

    asker: str
    visit: m.Visit | None = None
    considered: bool = False
    recall_until_ms: int = 0


class Line:
    """All places in line, at most one a request."""

    def __init__(self) -> None:
        self.keeping = Keeping()
        self._places: dict[str, Place] = {}
        self._leases = SortedList()
        """``(lease_ms, rid)`` of every place."""

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Place]:
        return iter(list(self._places.values()))

    def get(self, rid: str) -> Place | None:
        return self._places.get(rid)

    def put(self, place: Place) -> None:
        """Take `place`, instead of any that its request had."""
        self.leave(place.rid)
        self._places[place.rid] = place
        self._leases.add((place.lease_ms, place.rid))
        self.keeping.keep(place.rid, place.order, place.pieces)

    def leave(self, rid: str) -> Place | None:
        """The place that `rid` had, and has no more."""
        place = self._places.pop(rid, None)
        if place is not None:
            self._leases.remove((place.lease_ms, rid))
            self.keeping.drop(rid)
        return place

    def renew(self, place: Place, asker: str, lease_ms: int) -> None:
        self._leases.remove((place.lease_ms, place.rid))
        place.asker, place.lease_ms = asker, lease_ms
        self._leases.add((lease_ms, place.rid))

    def touching(self, times: Collection[Stretch]) -> list[str]:
        """Who waits for something during one of `times`, in order."""
        return self.keeping.touching(times)

    def ahead(self, rid: str) -> int:
        return self.keeping.ahead(rid)

    def senior_pieces(self, place: Place) -> list[Piece]:
        """What those older than `place` wait for at the times of its pieces, whatever the order in line."""
        times = {(resource, start, end) for resource, start, end, _ in place.pieces}
        return [
            (resource, max(start, begin), min(end, finish), units)
            for rid in self.keeping.touching(times)
            if self._places[rid].seniority < place.seniority
            for resource, begin, finish, units in self._places[rid].pieces
            for name, start, end, _ in place.pieces
            if name == resource and begin < end and start < finish
        ]

    def overdue(self, now_ms: int) -> list[Place]:
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
        self.keeping.check()
        assert list(self._leases) == sorted((p.lease_ms, p.rid) for p in self._places.values())
        assert len(self.keeping) == len(self._places)
        for rid, place in self._places.items():
            assert self.keeping.pieces(rid) == place.pieces
            assert self.keeping.order(rid) == place.order
