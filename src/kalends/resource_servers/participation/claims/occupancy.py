"""Claims on calendars, whole or not at all: of alternatives, and of old and new, only the larger.

A request that replaces a reservation needs room only where it wants more than the old one has: until
it is decided the old stands, and for every instant the calendar carries the larger of both. Claims
of different common starts are alternatives, of which one at most will be promised: for every instant
the calendar carries what the largest of them needs. In both cases not the claims are booked but
pieces: their envelope, as far as it exceeds what stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

from msgspec import structs

from kalends.calendars import Booking, ResourceCalendar
from kalends.calendars.profiles import total
from kalends.contract.fields import Want
from kalends.core.errors import Conflict
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake, claims_of

Placed = tuple[str, int]
"""A booking on a calendar: resource and booking id."""

Piece = tuple[str, int, int, int]
"""Resource, start, end, units."""


def place(
    calendars: Mapping[str, ResourceCalendar],
    bookings: Sequence[Booking],
    resources: Sequence[str],
) -> str:
    """Book all of `bookings` on the calendars of `resources` (pairwise), or none of them.

    Returns "" when done, else the resource that has no room; then every calendar is as it was.
    """
    for index, (booking, resource) in enumerate(zip(bookings, resources, strict=True)):
        try:
            calendars[resource].book(booking)
        except Conflict:
            for done, where in zip(bookings[:index], resources[:index], strict=True):
                calendars[where].release(done.id)
            return resource
    return ""


def booking_of(stake: Stake, claim: Claim, state: Literal["held", "prepared", "locked"]) -> Booking:
    return Booking(
        id=claim.hold_id,
        start=claim.start,
        end=claim.end + claim.gap_s,
        units=claim.units,
        state=state,
        holder=stake.principal.user,
        reservation=stake.rid,
        gap_s=claim.gap_s,
    )


def are_alternatives(claims: Sequence[Claim]) -> bool:
    """Whether `claims` have more than one common start."""
    return any(claim.common != claims[0].common for claim in claims)


def pieces_beyond(new: Sequence[Claim], old: Sequence[Claim]) -> list[Piece]:
    """Where the envelope of `new` needs more than `old` has, per resource: sorted, disjoint pieces.

    The units of a piece are constant; pieces that touch differ in units, or begin where a claim does.
    """
    pieces: list[Piece] = []
    for resource in sorted({claim.resource for claim in new}):
        wanted = [claim for claim in new if claim.resource == resource]
        standing = [claim for claim in old if claim.resource == resource]
        times = sorted({t for claim in (*wanted, *standing) for t in (claim.start, claim.end)})
        for start, end in pairwise(times):
            excess = envelope_at(wanted, start) - _units_at(standing, start)
            if excess > 0:
                pieces.append((resource, start, end, excess))
    return pieces


def buffered(claims: Iterable[Claim]) -> list[Claim]:
    """Return `claims` with the owner's buffer as a part of their slots: what they take of a calendar."""
    return [
        structs.replace(claim, end=claim.end + claim.gap_s, gap_s=0) if claim.gap_s else claim
        for claim in claims
    ]


def wants_beyond(wants: Sequence[Want], seen: Sequence[Claim]) -> tuple[Want, ...]:
    """Return those of `wants` that go beyond what is `seen`: at other times, or with more units together."""
    pieces = pieces_beyond(claims_of(wants), seen)
    return tuple(
        want
        for want in wants
        if any(
            resource == want.resource and start < want.end and want.start < end
            for resource, start, end, _ in pieces
        )
    )


def passed_of(claims: Sequence[Claim], now_s: int, instead: Sequence[Claim] = ()) -> list[Piece]:
    """Return what of `claims` has passed by `now_s` (UTC seconds), beyond what `instead` of them has."""
    past = [
        Claim(0, claim.resource, claim.start, min(claim.end, now_s), claim.units)
        for claim in claims
        if claim.start < now_s
    ]
    return pieces_beyond(past, instead) if past else []


def envelope_at(claims: Sequence[Claim], time_s: int) -> int:
    """What the largest of the alternatives in `claims` needs at `time_s`."""
    needed: Counter[int] = Counter()
    for claim in claims:
        if claim.start <= time_s < claim.end:
            needed[claim.common] += claim.units
    return max(needed.values(), default=0)


def peak_units(spans: Iterable[tuple[int, int, int]], start: int, end: int) -> int:
    """The most units that `spans` (start, end, units) have together at one time of ``[start, end)``."""
    return max((units for _, _, units in total(spans, start, end)), default=0)


def _units_at(claims: Sequence[Claim], time_s: int) -> int:
    return sum(claim.units for claim in claims if claim.start <= time_s < claim.end)


def piece_bookings(
    stake: Stake,
    pieces: Sequence[Piece],
    state: Literal["held", "prepared"],
    new_id: Callable[[], int],
) -> list[Booking]:
    return [
        Booking(
            id=new_id(),
            start=start,
            end=end,
            units=units,
            state=state,
            holder=stake.principal.user,
            reservation=stake.rid,
        )
        for _, start, end, units in pieces
    ]
