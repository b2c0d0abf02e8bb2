"""What an owner takes back of a resource, and what becomes of reservations there: calls and answers."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.fields import Key, ResourceName, TimeS
from kalends.core import limits


class Reclaim(Body, frozen=True, kw_only=True):
    """The owner needs `resource` during ``[start, end)``: no new claims there, and what is locked is moved.

    The broker of each reservation moves all its parts together to the best other time, or cancels it,
    and tells its user the `reason`. A reservation that begins within `notice_s` from now is left
    alone. With `units`, the owner needs so many: the others can be booked, and as few reservations are moved
    as have those. `key` makes the call repeatable; with `dry_run` nothing is done, and the answer says
    what would be.
    """

    key: Key
    resource: ResourceName
    start: TimeS
    end: TimeS
    notice_s: Annotated[int, Meta(ge=0, le=limits.DURATION_S_MAX)] = 0
    reason: Annotated[str, Meta(max_length=200)] = ""
    units: Annotated[int, Meta(ge=0, le=limits.UNITS_MAX)] = 0
    dry_run: bool = False


class ReclaimRef(Body, frozen=True, kw_only=True):
    key: Key


class ListReclaims(Body, frozen=True, kw_only=True):
    pass


ReclaimedState = Literal["waiting", "moved", "cancelled", "gone", "stays"]


class ReclaimedReservation(Answer, frozen=True, kw_only=True):
    """A reservation, and what it has, or had, of what is reclaimed.

    It waits to be moved, was moved to `to_start` on `to_resource`, or was cancelled; or it stays, and `why`
    says why. "gone": it was moved or cancelled, and the site knows no more which.
    """

    id: str
    user: str
    start: int
    end: int
    units: int
    state: ReclaimedState
    why: str = ""
    to_resource: str = ""
    to_start: int = 0
    to_end: int = 0


class ReclaimView(Answer, frozen=True, kw_only=True):
    """`waiting` reservations still stand there, `gone` have been moved or cancelled.

    With `units`, only so many of the resource are reclaimed; `lacking` is when how many of them others
    have still, and `beside` counts reservations for which there is room beside. `exact`: no fewer could be
    moved.
    """

    key: str
    resource: str
    start: int
    end: int
    reason: str = ""
    waiting: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()
    """They begin within the notice, and stay."""
    units: int = 0
    lacking: tuple[tuple[int, int, int], ...] = ()
    beside: int = 0
    exact: bool = True
    reservations: tuple[ReclaimedReservation, ...] = ()
    """All of `waiting`, `gone` and `spared`, with what is known of them."""


class Reclaims(Answer, frozen=True, kw_only=True):
    reclaims: tuple[ReclaimView, ...]
