"""Room that is kept for requests, in their order: no request gets room that an earlier one needs.

Without this rule small requests would starve big ones: they would always find room for themselves in
what a big one waits to become enough.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator

from sortedcontainers import SortedList

from kalends.resource_servers.participation.claims.occupancy import Piece

Order = tuple[float, str]
"""A request's place among others: its stamp (less a head start, where an owner gives one), and its id."""

Stretch = tuple[str, int, int]
"""Resource, start, end."""

LAST: Order = (math.inf, "")
"""After everybody."""


class Earmarks:
    """Room kept for each request. `pieces` of one request are whole numbers: resource, start, end, units."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Order, tuple[Piece, ...]]] = {}
        self._by_resource: dict[str, SortedList] = {}
        """``(order, rid)`` of everybody for whom something is kept there."""

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, rid: str) -> bool:
        return rid in self._kept

    def keep(self, rid: str, order: Order, pieces: Iterable[Piece]) -> None:
        """Keep `pieces`, and nothing else, for `rid`."""
        self.drop(rid)
        self._kept[rid] = order, tuple(pieces)
        for resource in self.resources(rid):
            self._by_resource.setdefault(resource, SortedList()).add((order, rid))

    def drop(self, rid: str) -> None:
        """Keep nothing for `rid` any more."""
        if rid not in self._kept:
            return
        order, _ = self._kept[rid]
        for resource in self.resources(rid):
            of_one = self._by_resource[resource]
            of_one.remove((order, rid))
            if not of_one:
                del self._by_resource[resource]
        del self._kept[rid]

    def order(self, rid: str) -> Order:
        return self._kept[rid][0]

    def pieces(self, rid: str) -> tuple[Piece, ...]:
        return self._kept[rid][1]

    def resources(self, rid: str) -> set[str]:
        return {resource for resource, _, _, _ in self._kept[rid][1]}

    def before(self, order: Order, resource: str) -> Iterator[Piece]:
        """The pieces of `resource` that are kept for those before `order`."""
        for other, rid in self._by_resource.get(resource, ()):
            if other >= order:
                return
            for piece in self._kept[rid][1]:
                if piece[0] == resource:
                    yield piece

    def ahead(self, rid: str) -> int:
        """How many requests before `rid` want some of the same room."""
        order, pieces = self._kept[rid]
        found = set()
        for resource, start, end, _ in pieces:
            for other, other_rid in self._by_resource[resource]:
                if other >= order:
                    break
                if other_rid not in found and any(
                    name == resource and begin < end and start < finish
                    for name, begin, finish, _ in self._kept[other_rid][1]
                ):
                    found.add(other_rid)
        return len(found)

    def touching(self, times: Collection[Stretch]) -> list[str]:
        """Everybody for whom something is kept during one of `times`, in order."""
        found = {
            (order, rid)
            for name, start, end in times
            for order, rid in self._by_resource.get(name, ())
            if any(
                resource == name and begin < end and start < finish
                for resource, begin, finish, _ in self._kept[rid][1]
            )
        }
        return [rid for _, rid in sorted(found)]

    def check(self) -> None:
        """Raises `AssertionError` when the indexes disagree."""
        indexed = {
            (resource, order, rid)
            for resource, of_one in self._by_resource.items()
            for order, rid in of_one
        }
        assert indexed == {
            (resource, order, rid)
            for rid, (order, _) in self._kept.items()
            for resource in self.resources(rid)
        }
