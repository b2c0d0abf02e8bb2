"""Free time, as one principal may see and use it: the answer to a Query. Touches nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from msgspec import structs

from kalends.calendars import ResourceCalendar, unknown_resource
from kalends.calendars.profiles import Change, Step
from kalends.contract.messages import FreeSteps, PriceList, Query, View, Want
from kalends.core import limits
from kalends.core.errors import Refusal
from kalends.core.intervals import Interval
from kalends.core.principals import Principal
from kalends.core.resources import Slot
from kalends.resource_servers.participation.barred_needs import barred
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.earmarks import LAST
from kalends.resource_servers.participation.claims.occupancy import Piece
from kalends.resource_servers.participation.contention.room import FreeRoom
from kalends.resource_servers.participation.contention.waiting_list import WaitingList
from kalends.resource_servers.participation.sockets import Guard
from kalends.resource_servers.participation.this_site import ThisSite


@dataclass(frozen=True)
class Views:
    """Answers what is free: booked in `book`, kept by `room` for those before the asker, or hoped for by
    those who are `listed`; and what a `guard` would grant. With `closed` nothing can be booked here at all,
    and the answer to whoever would book is why.
    """

    here: ThisSite
    book: ClaimTable
    room: FreeRoom
    listed: WaitingList
    guard: Guard
    closed: Callable[[], Refusal | None]

    def look(
        self, query: Query, wall_s: int, register: str = "", lost: Sequence[Piece] = ()
    ) -> View:
        """Return the view of every want of `query`; one that is not visible is as one that does not exist.

        With a `register`, whose broker asks, whose a slot is, is told of its own only. What is `lost` of the
        reservation to be replaced is of no use to its replacement.
        """
        with _without(self.book, query.replaces, query.principal.user, register) as taken_off:
            spoilt = lost if taken_off else ()
            lists: dict[str, PriceList] = {}
            views = tuple(
                self._priced(
                    query, want, self._look_at(query, want, wall_s, register, spoilt), lists
                )
                for want in query.wants
            )
        return View(
            query_id=query.query_id,
            epoch=self.here.epoch,
            views=views,
            prices=tuple(lists.values()),
        )

    def none_visible(self, query: Query) -> View:
        """Return the view of a user who may see nothing here."""
        views = tuple(map(_unknown, query.wants))
        return View(query_id=query.query_id, epoch=self.here.epoch, views=views)

    def _look_at(
        self, query: Query, want: Want, wall_s: int, register: str, lost: Sequence[Piece]
    ) -> FreeSteps:
        book, room = self.book, self.room
        calendar = book.calendars.get(want.resource)
        if calendar is None or not calendar.visible_to(query.principal) or want.start >= want.end:
            return _unknown(want)
        never = calendar.never(query.principal, query.length_s)
        if calendar.rules.limits.shortest:
            never = never or _too_short(calendar, query)
        if never is not None:
            return FreeSteps(resource=want.resource, until=want.end, refusal=never)
        if query.needs and (closed := self.closed()) is not None:
            refusal = structs.replace(closed, where=want.resource)
            return FreeSteps(resource=want.resource, until=want.end, refusal=refusal)
        caps: list[list[Step]] = []
        if query.needs and not query.replaces:
            window = Interval(want.start, min(want.end, wall_s + calendar.info.horizon_s))
            amounts = {need.units for need in query.needs}
            caps = book.usage.caps(
                query.principal, want.resource, window, query.length_s, amounts, wall_s
            )
        steps, until = calendar.free_steps(
            query.principal, want.start, want.end, wall_s, limits.VIEW_STEPS_MAX,
            [*_changes(calendar, query, want, room), *self._useless(query, want, wall_s, lost)], caps,
        )  # fmt: skip
        slots: Sequence[Slot] = ()
        waiting: Sequence[tuple[int, int, int]] = ()
        if query.detail:
            slots, listed_until = calendar.slots_until(
                query.principal, want.start, want.end, limits.LISTING_MAX
            )
            until = min(until, listed_until)
            waiting = self.listed.hoped_for(want.resource, want.start, want.end)
        return FreeSteps(
            resource=want.resource,
            until=until,
            steps=tuple(
                (start, min(end, until), units)
                for start, end, units in steps
                if units >= want.units and start < until
            ),
            held=query.counting == "all" and _is_held(book, want, room),
            slots=tuple(_told(book, slot, register) for slot in slots),
            waiting=tuple(waiting[: limits.LISTING_MAX]),
            as_of=self.guard.as_of(want.resource),
            barred=barred(book, query, want, wall_s, caps, steps) if until == want.end else (),
            approval=calendar.needs_approval(query.principal),
            rules=_rules(book, want.resource, query.principal, wall_s) if query.detail else (),
        )

    def _priced(
        self, query: Query, want: Want, seen: FreeSteps, lists: dict[str, PriceList]
    ) -> FreeSteps:
        """Return `seen` with the name of its prices, and add them to `lists`, once for each name."""
        calendar = self.book.calendars.get(want.resource)
        if calendar is None or seen.refusal is not None or not calendar.rules.prices:
            return seen
        prices = calendar.rules.prices
        terms = prices.terms(query.principal)
        if terms and terms not in lists:
            start = min(each.start for each in query.wants)
            end = min(max(each.end for each in query.wants), start + limits.WINDOW_S_MAX)
            steps = prices.steps(query.principal, start, end)
            lists[terms] = PriceList(terms, tuple(islice(steps, limits.VIEW_STEPS_MAX)))
        if terms and seen.until > (until := lists[terms].steps[-1][1]):
            seen = ending_by(seen, until)
        return structs.replace(seen, terms=terms)

    def _useless(
        self, query: Query, want: Want, wall_s: int, lost: Sequence[Piece]
    ) -> list[Change]:
        """Return what is free, and cannot be had by whoever asks."""
        found = [(start, end, -units) for name, start, end, units in lost if name == want.resource]
        if found or not query.replaces:  # Else it may grow where it stands.
            pieces = self.guard.fragments(
                want.resource, max(want.start, wall_s), want.end, query.length_s
            )
            found += [(start, end, -units) for start, end, units in pieces]
        return found


def _too_short(calendar: ResourceCalendar, query: Query) -> Refusal | None:
    """Return the refusal if no need of `query` is long enough for the owner. A change may be shorter."""
    name = calendar.info.name
    lengths = [need.length_s for need in query.needs if need.resource in ("", name)]
    named = [need.length_s for need in query.needs if need.resource == name]
    if query.replaces or not lengths:
        return None
    return calendar.too_short(query.principal, min(named, default=max(lengths)))


def ending_by(seen: FreeSteps, until: int) -> FreeSteps:
    """Return as much of `seen` as is before `until`."""
    return structs.replace(
        seen,
        until=until,
        steps=tuple(
            (start, min(end, until), units) for start, end, units in seen.steps if start < until
        ),
        slots=tuple(slot for slot in seen.slots if slot.start < until),
        barred=(),
    )


def _rules(book: ClaimTable, resource: str, principal: Principal, wall_s: int) -> tuple[str, ...]:
    told = book.rules_for(principal, resource, wall_s)[: 2 * limits.RULES_MAX]
    return tuple(each[: limits.TEXT_MAX] for each in told)


def _told(book: ClaimTable, slot: Slot, register: str) -> Slot:
    """`slot` as the broker of `register` may see it."""
    stake = book.stakes.peek(slot.reservation)
    if not register or stake is None or stake.register in ("", register):
        return slot
    return structs.replace(slot, holder="", reservation="")


def _is_held(book: ClaimTable, want: Want, room: FreeRoom) -> bool:
    if any(next(each.before(LAST, want.resource), None) for each in room.earmarks):
        return True
    totals = book.totals()
    if not (totals["held"] or totals["prepared"]):
        return False
    calendar = book.calendars[want.resource]
    listed = calendar.calendar.listing(want.start, want.end + calendar.gap_s)
    return any(booking.state != "locked" for booking in listed)


def _changes(calendar: ResourceCalendar, query: Query, want: Want, room: FreeRoom) -> list[Change]:
    """What counts as taken less (for `counting`), and more (kept for others), than what is booked."""
    if query.counting == "all":
        head_start_ms = calendar.head_start_ms(query.principal)
        order = (query.stamp - head_start_ms, "") if query.stamp else LAST
        return [
            (start, end, -units)
            for each in room.kept
            for _, start, end, units in each.before(order, want.resource)
        ]
    return [
        (booking.start, booking.end, booking.units)
        for booking in calendar.calendar.listing(want.start, want.end + calendar.gap_s)
        if query.counting == "none" or booking.state != "locked"
    ]


def _unknown(want: Want) -> FreeSteps:
    refusal = unknown_resource(want.resource)
    return FreeSteps(resource=want.resource, until=want.end, refusal=refusal)


@contextmanager
def _without(book: ClaimTable, rid: str, user: str, register: str) -> Iterator[bool]:
    """Look as if the user's own locked `rid` were not booked: the view of a change of it.

    Yields whether it is so.
    """
    stake = book.stakes.get(rid)
    if stake is None or not stake.has("locked") or stake.principal.user != user:
        yield False
        return
    if register and stake.register not in ("", register):
        yield False
        return
    if book.changer_of(rid):
        yield False
        return
    with book.without(stake):
        yield True
