"""Who is before whom in line at a site, as far as it is known from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kalends.contract import messages as m
from kalends.core.principals import Principal
from tests.simulation.line_books import SiteBooks, Span, Waiter, lacking, overlapping, spans_of
from tests.simulation.listening import milliseconds

Place = tuple[int, str]
"""A request's stamp, less the head start that its owner's rules give it, and its id."""


class Order:
    """`head_start_ms` is what the owners' rules give to a request in line."""

    def __init__(
        self, capacities: dict[str, int], head_start_ms: Callable[[Principal], int]
    ) -> None:
        self.capacities = capacities
        self._head_start_ms = head_start_ms

    def place(self, waiter: Waiter) -> Place:
        return self.place_of(waiter.visit, yielded=waiter.yielded)

    def place_of(self, visit: m.Visit | m.Dispatch, *, yielded: bool = False) -> Place:
        """Where `visit` would stand in line."""
        start_ms = 0 if yielded else self._head_start_ms(visit.principal)
        return visit.stamp - start_ms, visit.rid

    def passed_over(
        self, books: SiteBooks, place: Place, spans: Sequence[Span], since: int, moment: int
    ) -> Iterator[tuple[Waiter, Span]]:
        """Who surely waits before `place`, since before `since`, and needs what of `spans`."""
        taken = books.firmly_taken(but=place[1])
        for rid, waiter in books.waiters.items():
            if (
                rid == place[1]
                or not waiter.surely_waits(milliseconds(moment))
                or waiter.entered >= since
                or waiter.visit.replaces
                or self.place(waiter) >= place
            ):
                continue
            kept = spans_of(waiter.visit.wants)
            # Only where this request takes part in it is too much its doing.
            for lack in lacking(self.capacities, [*taken, *kept], spans):
                if overlapping([lack], kept):
                    yield waiter, lack
                    break

    def perhaps_before(self, books: SiteBooks, waiter: Waiter, now_ms: int) -> Iterator[Waiter]:
        """Who may have a right to the same room before `waiter`, in line or on the waiting list."""
        for other in (*books.waiters.values(), *books.listed.values()):
            if (
                other.visit.rid != waiter.visit.rid
                and other.perhaps_waits(now_ms)
                and wants_the_same(other, waiter)
                # It may not have yielded, for all one knows.
                and self.place_of(other.visit) < self.place(waiter)
            ):
                yield other

    def has_room(self, waiter: Waiter, taken: Sequence[Span]) -> bool:
        return not any(lacking(self.capacities, taken, spans_of(waiter.visit.wants)))


def most_ahead(books: SiteBooks, waiter: Waiter, since: int, now_ms: int) -> int:
    """How many may have been in line for the same room at any time after `since`."""
    return sum(
        rid != waiter.visit.rid
        and any(
            other.perhaps_waits(now_ms) and wants_the_same(other, waiter)
            for other in books.waited(rid, since)
        )
        for rid in books.waiters.keys() | books.left.keys()
    )


def wants_the_same(one: Waiter, other: Waiter) -> bool:
    return overlapping(spans_of(one.visit.wants), spans_of(other.visit.wants))
