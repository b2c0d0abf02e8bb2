"""What is free, as one principal may see and use it: the answer to a Query. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import structs

from kalends.calendars import ResourceCalendar, unknown_resource
from kalends.calendars.profiles import Change
from kalends.contract.messages import FreeSteps, Query, View, Want
from kalends.core import limits
from kalends.core.resources import Slot
from kalends.resource_servers.participation.claim_table import ClaimTable
from kalends.resource_servers.participation.earmarks import LAST
from kalends.resource_servers.participation.room import FreeRoom
from kalends.resource_servers.participation.waiting_list import WaitingList


def look(
    book: ClaimTable,
    query: Query,
    epoch: int,
    wall_s: int,
    room: FreeRoom,
    listed: WaitingList,
    register: str = "",
) -> View:
    """The view of every want of `query`; one that is not visible is as one that does not exist.

    What `room` keeps for those before the asker is not free; `listed` wait for something to come free.
    With a `register`, whose broker asks, whose a slot is, is told of its own only.
    """
    with _without(book, query.replaces, query.principal.user, register):
        views = tuple(
            _look_at(book, query, want, wall_s, room, listed, register) for want in query.wants
        )
    return View(query_id=query.query_id, epoch=epoch, views=views)


def _look_at(
    book: ClaimTable,
    query: Query,
    want: Want,
    wall_s: int,
    room: FreeRoom,
    listed: WaitingList,
    register: str,
) -> FreeSteps:
    calendar = book.calendars.get(want.resource)
    if calendar is None or not calendar.visible_to(query.principal) or want.start >= want.end:
        refusal = unknown_resource(want.resource)
        return FreeSteps(resource=want.resource, until=want.end, refusal=refusal)
    too_long = calendar.too_long(query.principal, query.length_s)
    if too_long is not None:
        return FreeSteps(resource=want.resource, until=want.end, refusal=too_long)
    steps, until = calendar.free_steps(
        query.principal, want.start, want.end, wall_s, limits.VIEW_STEPS_MAX,
        _changes(calendar, query, want, room),
    )  # fmt: skip
    slots = (
        calendar.slots(query.principal, want.start, want.end, limits.LISTING_MAX)
        if query.detail
        else []
    )
    usable = tuple((start, end, units) for start, end, units in steps if units >= want.units)
    held = query.counting == "all" and _is_held(book, want, room)
    waiting = listed.hoped_for(want.resource, want.start, want.end) if query.detail else ()
    return FreeSteps(
        resource=want.resource, until=until, steps=usable, held=held,
        slots=tuple(_told(book, slot, register) for slot in slots),
        waiting=tuple(waiting[: limits.LISTING_MAX]),
    )  # fmt: skip


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
    listed = book.calendars[want.resource].calendar.listing(want.start, want.end)
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
        for booking in calendar.calendar.listing(want.start, want.end)
        if query.counting == "none" or booking.state != "locked"
    ]


@contextmanager
def _without(book: ClaimTable, rid: str, user: str, register: str) -> Iterator[None]:
    """Look as if the user's own locked `rid` were not booked: the view of a change of it."""
    stake = book.stakes.get(rid)
    if stake is None or not stake.has("locked") or stake.principal.user != user:
        yield
        return
    if register and stake.register not in ("", register):
        yield
        return
    if book.changer_of(rid):
        yield
        return
    with book.without(stake):
        yield
