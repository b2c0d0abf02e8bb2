"""A failure as users saw it, counted from their bookings, and compared with an audit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import msgspec

from kalends.contract.calls import AuditClaim, AuditRecord


class BookingSeen(NamedTuple):
    """A booking as its user saw it; `start` is its slot, which no other booking asks for.

    It began and ended at these times of a clock that never goes back, after this number of equal calls. It is
    undecided if its user had no answer when giving up.
    """

    start: int
    began_s: float
    ended_s: float
    outcome: Literal["booked", "refused", "undecided"]
    calls: int = 1
    id: str = ""
    problem: str = ""


class Window(NamedTuple):
    """The time of a failure: a host is struck at `struck_s`, and back at `until_s`."""

    since_s: float
    struck_s: float
    until_s: float


class AuditFound(NamedTuple):
    """The findings of an audit when all was at rest: slots, by their starts."""

    lost: frozenset[int]
    """Booked, by what a user was told, and not locked at every site."""
    undecided: frozenset[int]
    """Still open at a broker, or kept by a site for a decision."""
    stray: frozenset[int]
    """Locked at a site, though no user was told so."""


class FailureSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One failure as users saw it.

    `gap_s` is the longest time between two bookings, and `slowest_s` the longest that one took. `before` and
    `after` count bookings until the strike, and from then on. `repeated` counts calls that had to be
    repeated, with the same key. `lost` and `undecided` are the results of the audit.
    """

    failure: str
    gap_s: float
    slowest_s: float
    before: int
    after: int
    refused: int
    repeated: int
    undecided: int
    lost: int


def failure_seen(
    failure: str, bookings: Iterable[BookingSeen], window: Window, found: AuditFound
) -> FailureSeen:
    """Count the bookings that ended in `window`."""
    within = [each for each in bookings if window.since_s <= each.ended_s < window.until_s]
    booked = sorted(each.ended_s for each in within if each.outcome == "booked")
    struck = [each for each in within if each.ended_s >= window.struck_s]
    starts = {each.start for each in within}
    unanswered = {each.start for each in within if each.outcome == "undecided"}
    return FailureSeen(
        failure=failure,
        gap_s=longest_gap_s(booked, window.struck_s, window.until_s),
        slowest_s=max((each.ended_s - each.began_s for each in struck), default=0.0),
        before=sum(at_s < window.struck_s for at_s in booked),
        after=sum(at_s >= window.struck_s for at_s in booked),
        refused=sum(each.outcome == "refused" for each in struck),
        repeated=sum(each.calls - 1 for each in struck),
        undecided=len(unanswered | (found.undecided & starts)),
        lost=len(found.lost & starts),
    )


def longest_gap_s(booked_s: Sequence[float], since_s: float, until_s: float) -> float:
    """Return the longest time without a booking that ends after `since_s`; `booked_s` is sorted.

    A gap begins with the last booking before `since_s`, or with `since_s` if there is none. One that has not
    ended at `until_s` has lasted until then.
    """
    before = [at_s for at_s in booked_s if at_s <= since_s]
    begin_s = before[-1] if before else since_s
    inside = [at_s for at_s in booked_s if since_s < at_s < until_s]
    return max(later - earlier for earlier, later in pairwise([begin_s, *inside, until_s]))


def found_again(
    bookings: Sequence[BookingSeen],
    units: Mapping[str, int],
    claims: Sequence[AuditClaim],
    records: Sequence[AuditRecord],
) -> AuditFound:
    """Compare `bookings` with all claims of the sites and all decisions of the broker.

    Each booking takes so many `units` of each resource.
    """
    decided = {record.id: record.state for record in records}
    starts = {each.id: each.start for each in bookings if each.id}
    locked = {
        (each.id, each.resource, each.start, each.units)
        for each in claims
        if each.state == "locked"
    }
    booked = [each for each in bookings if each.outcome == "booked"]
    unanswered = {each.start for each in bookings if each.outcome == "undecided"}
    open_ids = {record.id for record in records if record.state == "open"}
    return AuditFound(
        lost=frozenset(
            each.start
            for each in booked
            if decided.get(each.id) != "commit"
            or any(
                (each.id, name, each.start, count) not in locked for name, count in units.items()
            )
        ),
        undecided=frozenset(
            [starts.get(id, 0) for id in open_ids]
            + [each.start for each in claims if each.state in ("held", "prepared")]
        ),
        stray=frozenset(start for _, _, start, _ in locked)
        - {each.start for each in booked}
        - unanswered,
    )
