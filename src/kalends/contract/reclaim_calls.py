"""Calls and answers about periods that an owner reclaims, and the reservations in them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.fields import Key, ResourceName, TimeS
from kalends.core import limits


class Reclaim(Body, frozen=True, kw_only=True):
    """Reclaim `resource` during ``[start, end)``: it accepts no new claims, and reservations are moved.

    The broker of each reservation moves all its parts together to the best other time, or cancels it, and
    sends the `reason` to its user. A reservation that begins within `notice_s` from now stays. With `units`,
    only so many are reclaimed: the others can be booked, and as few reservations are moved as free them.
    `key` makes the call repeatable; with `dry_run` nothing is changed, and the answer shows the expected
    outcome.
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
    """A reservation, and its present or earlier part of the reclaimed period.

    It waits to be moved, was moved to `to_start` on `to_resource`, or was cancelled; or it stays for the
    reason `why`. "gone": it was moved or cancelled, and the site no longer knows which.
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
    """A reclaim: `waiting` reservations are still there, `gone` ones have been moved or cancelled.

    With `units`, only so many units are reclaimed. `lacking` are the times and numbers of units that others
    still have of them, and `beside` is the number of reservations that fit in the rest. `exact`: fewer
    reservations could not be moved.
    """

    key: str
    resource: str
    start: int
    end: int
    reason: str = ""
    waiting: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()
    """Reservations that begin within the notice, and stay."""
    units: int = 0
    lacking: tuple[tuple[int, int, int], ...] = ()
    beside: int = 0
    exact: bool = True
    reservations: tuple[ReclaimedReservation, ...] = ()
    """All of `waiting`, `gone` and `spared`, with details."""


class Reclaims(Answer, frozen=True, kw_only=True):
    reclaims: tuple[ReclaimView, ...]
