"""Waiting lists: requests that hold nothing and wait for room in some windows.

What has come free is offered to them one after the other, by their stamps. While it is offered to
one, it is kept from everybody behind (see `earmarks`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from sortedcontainers import SortedList

from kalends.contract import messages as m
from kalends.core.errors import Refusal
from kalends.resource_servers.participation.claims.earmarks import Order, Stretch


@dataclass(slots=True)
class WaitingListOffer:
    """What came free, and is offered to one request until `until_ms` (monotonic).

    `late` came free after the request had been told, which may have looked before.
    """

    until_ms: int
    freed: list[Stretch]
    late: list[Stretch] = field(default_factory=list)


@dataclass(slots=True)
class WaitingListEntry:
    """One request in the list; `lease_ms` is monotonic."""

    wish: m.Await
    asker: str
    order: Order
    lease_ms: int
    offer: WaitingListOffer | None = None
    news: int = 0
    """The number of the last thing that it should look into."""
    dear: tuple[m.Want, Refusal] | None = None
    """The last room that it could not pay for, and why."""
    windows: dict[str, list[m.Want]] = field(init=False, default_factory=dict)
    """What it waits for, by resource."""

    def __post_init__(self) -> None:
        for want in self.wish.wants:
            self.windows.setdefault(want.resource, []).append(want)

    @property
    def rid(self) -> str:
        return self.wish.rid

    @property
    def missed(self) -> bool:
        """Whether it has not looked into all that there was, as far as this site knows."""
        return self.news != self.wish.seen


class WaitingList:
    """All requests in the list, by id and by resource."""

    def __init__(self) -> None:
        self._listed: dict[str, WaitingListEntry] = {}
        self._by_resource: dict[str, SortedList] = {}
        self._deadlines = SortedList()
        """``(at_ms, rid)``: the end of the lease, or of the offer, whichever comes first."""

    def __len__(self) -> int:
        return len(self._listed)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._listed))

    def get(self, rid: str) -> WaitingListEntry | None:
        return self._listed.get(rid)

    def put(self, listed: WaitingListEntry) -> None:
        """Take `listed`, instead of what its request had."""
        self.leave(listed.rid)
        self._listed[listed.rid] = listed
        self._deadlines.add((_deadline_ms(listed), listed.rid))
        for resource in listed.windows:
            self._by_resource.setdefault(resource, SortedList()).add((listed.order, listed.rid))

    def leave(self, rid: str) -> WaitingListEntry | None:
        """What `rid` had in the list, and has no more."""
        listed = self._listed.pop(rid, None)
        if listed is None:
            return None
        self._deadlines.remove((_deadline_ms(listed), rid))
        for resource in listed.windows:
            of_one = self._by_resource[resource]
            of_one.remove((listed.order, rid))
            if not of_one:
                del self._by_resource[resource]
        return listed

    def offered(self, listed: WaitingListEntry, offer: WaitingListOffer | None) -> None:
        """From now on this is offered to `listed`, or nothing."""
        self._deadlines.remove((_deadline_ms(listed), listed.rid))
        listed.offer = offer
        self._deadlines.add((_deadline_ms(listed), listed.rid))

    def after(self, order: Order | None, resource: str) -> Iterator[WaitingListEntry]:
        """Yield the requests that wait for something on `resource` behind `order` (None: all), in order."""
        for other, rid in list(self._by_resource.get(resource, ())):
            if order is None or other > order:
                yield self._listed[rid]

    def ahead(self, rid: str) -> int:
        """How many requests before `rid` wait for something in its windows."""
        listed = self._listed[rid]
        found: set[str] = set()
        for resource, windows in listed.windows.items():
            for order, other in self._by_resource[resource]:
                if order >= listed.order:
                    break
                theirs = self._listed[other].windows[resource]
                if other not in found and any(_overlap(a, b) for a in windows for b in theirs):
                    found.add(other)
        return len(found)

    def hoped_for(self, resource: str, start: int, end: int) -> list[tuple[int, int, int]]:
        """Start, end and units of what is wanted there at one time only, during ``[start, end)``."""
        return [
            (want.start, want.end, want.units)
            for listed in self.after(None, resource)
            for want in listed.windows[resource]
            if want.end - want.start == listed.wish.length_s
            and want.start < end
            and start < want.end
        ]

    def overdue(self, now_ms: int) -> list[WaitingListEntry]:
        """Return the requests whose lease, or offer, has ended by now."""
        due = takewhile(lambda each: each[0] <= now_ms, self._deadlines)
        return [self._listed[rid] for _, rid in due]

    def next_deadline_ms(self) -> int | None:
        return self._deadlines[0][0] if self._deadlines else None

    def count(self, user: str) -> int:
        """How many requests of `user` are in the list."""
        return sum(each.wish.principal.user == user for each in self._listed.values())

    def check(self) -> None:
        """Raises `AssertionError` when the indexes disagree."""
        assert list(self._deadlines) == sorted(
            (_deadline_ms(each), rid) for rid, each in self._listed.items()
        )
        assert {
            (resource, *each) for resource, of_one in self._by_resource.items() for each in of_one
        } == {
            (resource, each.order, rid)
            for rid, each in self._listed.items()
            for resource in each.windows
        }


def _deadline_ms(listed: WaitingListEntry) -> int:
    return min(listed.lease_ms, listed.offer.until_ms) if listed.offer else listed.lease_ms


def _overlap(one: m.Want, other: m.Want) -> bool:
    return one.start < other.end and other.start < one.end
