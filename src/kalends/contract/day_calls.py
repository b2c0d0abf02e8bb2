"""The call for an owner's day: who comes, what waits, what has changed, what needs a hand."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.owner_calls import ApprovalView, ReclaimView

DAY_ROWS_MAX: Final = 2_000
"""Rows of each kind in one answer: more than any owner reads in a morning."""


class ShowDay(Body, frozen=True, kw_only=True):
    """Show one `day` of the site, as ``2027-03-01`` or ``tomorrow`` in the `zone`; "" is today.

    The zone "" is that of most resources of the site.
    """

    day: Annotated[str, Meta(max_length=40)] = ""
    zone: Annotated[str, Meta(max_length=64)] = ""


class DaySlot(Answer, frozen=True, kw_only=True):
    """Reservation `id` of `user` has `units` of `resource` during ``[start, end)``, or holds them.

    `contact` is the mail address that the site has for the user, `note` what the user wrote to an owner who
    had to approve it.
    """

    id: str
    user: str
    resource: str
    start: int
    end: int
    units: int
    state: Literal["locked", "held"] = "locked"
    groups: tuple[str, ...] = ()
    note: str = ""
    contact: str = ""
    came_at: int = 0
    """When the user checked in; 0: not yet."""


class DayChange(Answer, frozen=True, kw_only=True):
    """A slot that reservation `id` had on this day, and has no more.

    It was cancelled, or moved to ``[to_start, to_end)`` on `to_resource`. A move to an earlier day has no new
    place here.
    """

    id: str
    user: str
    resource: str
    start: int
    end: int
    units: int
    made: Literal["moved", "cancelled"]
    to_resource: str = ""
    to_start: int = 0
    to_end: int = 0
    contact: str = ""


class DayUse(Answer, frozen=True, kw_only=True):
    """Use of `resource` so far this week: `unit_s` unit-seconds of slots that `reservations` had."""

    resource: str
    capacity: int
    unit_s: int
    reservations: int


class DayView(Answer, frozen=True, kw_only=True):
    """The day ``[start, end)`` of a site, in the `zone`, as it is `now` (seconds UTC).

    `comes` is sorted by start. `used` counts since `week_since`, the start of this week, or the earliest time
    of which the site still has all records. `more`: there is more than the answer has.
    """

    site: str
    zone: str
    day: str
    start: int
    end: int
    now: int
    comes: tuple[DaySlot, ...] = ()
    waiting: tuple[ApprovalView, ...] = ()
    changed: tuple[DayChange, ...] = ()
    reclaims: tuple[ReclaimView, ...] = ()
    """Periods of this day that the owner has reclaimed."""
    absent: tuple[ReclaimView, ...] = ()
    """Slots of this day for which nobody came, and which were given back."""
    no_shows: dict[str, int] = {}
    """Slots of the last four weeks for which nobody came, by user."""
    problems: tuple[str, ...] = ()
    """Alarms that need a hand."""
    used: tuple[DayUse, ...] = ()
    week_since: int = 0
    more: bool = False
