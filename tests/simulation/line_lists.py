"""Waiting lists: whoever waits beside room for all of it is served within a bound, without faults.

A request is on the lists of all sites that it may use; what it holds, it does not wait for. It is surely
beside room when at each of them there is room for all that it waits for there, at one common time, and
nobody may be before it, and it can pay for it. Then it must ask for it within the bound, or be over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from tests.simulation.line_books import SiteBooks, Span, Waiter, lacking, spans_of
from tests.simulation.line_order import Order

SERVE_MS = 30_000
"""A take-over (a lease and a beat), a repeated Await, a look that one site is slow to answer."""

AHEAD_S = 60
"""A time that begins sooner may be past before it is asked for."""


class Lists:
    """`now_s` is the time of users, by which what has begun can be asked for no more."""

    def __init__(self, order: Order, now_s: Callable[[], int], *, serve_ms: int = SERVE_MS) -> None:
        self.now_s = now_s
        self.can_pay: Callable[[str, Waiter], bool] = lambda site, waiter: True
        """Whether a request surely has the credit for what it waits for at a site, and may spend it."""
        self._order = order
        self._serve_ms = serve_ms
        self._room_since_ms: dict[str, int] = {}
        self._over: set[str] = set()

    def healed(self) -> None:
        """What was before, does not count."""
        self._room_since_ms.clear()

    def asked(self, rid: str) -> None:
        """It has seen that there is room; others may have been faster."""
        self._room_since_ms.pop(rid, None)

    def ended(self, rid: str) -> None:
        self._over.add(rid)
        self._room_since_ms.pop(rid, None)

    def unserved(
        self, rids: Collection[str], sites: Mapping[str, SiteBooks], now_ms: int
    ) -> Iterator[tuple[str, int]]:
        """Those of `rids` that have been beside room for too long, and for how long; each once."""
        for rid in sorted(rids):
            if rid in self._over or not self._beside_room(rid, sites, now_ms):
                self._room_since_ms.pop(rid, None)
                continue
            since_ms = self._room_since_ms.setdefault(rid, now_ms)
            if now_ms > since_ms + self._serve_ms:
                self._over.add(rid)
                yield rid, now_ms - since_ms

    def _beside_room(self, rid: str, sites: Mapping[str, SiteBooks], now_ms: int) -> bool:
        held = [books.taken[rid] for books in sites.values() if rid in books.taken]
        if any(taken.perhaps(now_ms) for taken in held):
            return False
        standing = {site: books.listed[rid] for site, books in sites.items() if rid in books.listed}
        taken: list[Span] = []
        for site, waiter in standing.items():
            books = sites[site]
            if not waiter.surely_waits(now_ms) or not self.can_pay(site, waiter):
                return False
            if any(self._order.perhaps_before(books, waiter, now_ms)):
                return False
            taken += books.perhaps_taken(now_ms)
        waiters = list(standing.values())
        return any(self._has_room(begin, waiters, taken) for begin in self._begins(waiters, taken))

    def _begins(self, waiters: Iterable[Waiter], taken: Sequence[Span]) -> set[int]:
        """If there is a time at all, one of these is."""
        windows = [want for waiter in waiters for want in waiter.visit.wants]
        ends = {end for _, _, end, _ in taken}
        soonest = self.now_s() + AHEAD_S
        return {begin for begin in {want.start for want in windows} | ends if begin >= soonest}

    def _has_room(self, begin: int, waiters: Sequence[Waiter], taken: Sequence[Span]) -> bool:
        """Whether all of it fits from `begin` on, within every window."""
        wanted: list[Span] = []
        for waiter in waiters:
            for resource, start, end, units in spans_of(waiter.visit.wants):
                if begin < start or begin + waiter.length_s > end:
                    return False
                wanted.append((resource, begin, begin + waiter.length_s, units))
        return not any(lacking(self._order.capacities, taken, wanted))
