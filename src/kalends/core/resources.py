"""Resources as users see them, and slots as a principal may see them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kalends.core import identifiers as ids
from kalends.core import limits
from kalends.core.features import BUFFERS, since

AttributeValue = (
    Annotated[str, Meta(max_length=limits.TEXT_MAX)]
    | Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
    | float
    | bool
)
AttributeName = Annotated[str, Meta(min_length=1, max_length=63)]
BufferS = Annotated[int, Meta(ge=0, le=2 * limits.BUFFER_S_MAX), since(BUFFERS, hint=True)]
"""Seconds of an owner's buffer: no user can book them."""
SlotState = Literal["available", "held", "locked"]
"""The three states that users see; a prepared claim shows as held."""


class ResourceInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A bookable thing: `capacity` 1 for an instrument, n for n identical nodes.

    Slots start and end where the clock of `zone`, the owner's (an IANA name), shows a multiple of `grain_s`
    seconds since midnight; none ends later than `horizon_s` from now. `hours` are the opening hours in
    words, `rules` the owner's limits, blackouts and head starts in words.
    """

    name: Annotated[str, Meta(pattern=ids.whole(ids.RESOURCE_PATTERN))]
    capacity: Annotated[int, Meta(ge=1, le=limits.UNITS_MAX)] = 1
    attributes: Annotated[
        dict[AttributeName, AttributeValue], Meta(max_length=limits.ATTRIBUTES_MAX)
    ] = {}
    grain_s: Annotated[int, Meta(ge=1, le=86_400)] = 60
    horizon_s: Annotated[int, Meta(ge=1, le=limits.WINDOW_S_MAX)] = 366 * 86_400
    zone: Annotated[str, Meta(max_length=64)] = "UTC"
    hours: Annotated[str, Meta(max_length=limits.HOURS_TEXT_MAX)] = ""
    description: Annotated[str, Meta(max_length=limits.TEXT_MAX)] = ""
    rules: Annotated[
        tuple[Annotated[str, Meta(max_length=limits.TEXT_MAX)], ...],
        Meta(max_length=limits.RULES_MAX),
    ] = ()
    advisory: Annotated[str, Meta(max_length=64)] = ""
    """Name of a batch system that accepts jobs but no reservations; "" if slots can be booked."""
    queue: bool = False
    """Whether the resource is a machine with a queue of jobs, in which a broker may ask for places."""
    through: Annotated[
        tuple[Annotated[str, Meta(pattern=ids.whole(ids.NAME_PATTERN))], ...],
        Meta(max_length=limits.NESTED_MAX),
    ] = ()
    """Virtual sites through which the answering broker reaches the site, the nearest first."""
    companions: Annotated[
        tuple[Annotated[str, Meta(pattern=ids.whole(ids.RESOURCE_PATTERN))], ...],
        Meta(max_length=limits.COMPANIONS_MAX),
        since(BUFFERS, hint=True),
    ] = ()
    """Resources of the same site without which it cannot be booked."""
    gap_s: BufferS = 0
    """Seconds that the owner keeps free between two bookings of one unit."""


def job_of_slot(reservation: str) -> str:
    """Return "job 17" if that job uses the nodes of the slot; "" if the slot is a booking."""
    return reservation if reservation.startswith("job ") else ""


class Slot(msgspec.Struct, frozen=True, omit_defaults=True):
    """A slot: `units` of a calendar in one state during ``[start, end)``; `holder` only if visible.

    `before_s` and `after_s` are set-up and clearing, which no user can book.
    """

    start: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]
    end: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)]
    units: Annotated[int, Meta(ge=1, le=limits.UNITS_MAX)]
    state: SlotState
    holder: Annotated[str, Meta(max_length=128)] = ""
    reservation: Annotated[str, Meta(max_length=64)] = ""
    before_s: BufferS = 0
    after_s: BufferS = 0
