"""Costs of slots: prices of now for new time, old terms for kept time, refunds for the rest.

Pure functions of terms and times. Nothing is rounded but a fee, which is rounded down.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from kalends.calendars import ResourceCalendar
from kalends.contract.costs import PaidPiece, SlotCost
from kalends.contract.fields import Want
from kalends.core.principals import Principal

Stretch = tuple[int, int]


def priced(
    calendar: ResourceCalendar, principal: Principal, want: Want, standing: OldTerms
) -> SlotCost:
    """Return the terms of `want`; time that it shares with `standing` keeps its price, and is taken from
    there."""
    kept = standing.take(want)
    prices, rule = calendar.rules.prices, calendar.rules.cancel
    pieces = [each for each, _ in kept]
    for start, end, units in _uncovered(want, pieces):
        for first, last, rate in prices.steps(principal, start, end) if prices else ():
            pieces.append(PaidPiece(first, last, units, rate))
        if not prices:
            pieces.append(PaidPiece(start, end, units, 0))
    return SlotCost(
        want, _joined(pieces), free_until_s=rule.free_until_s, fee=rule.fee, unused=rule.unused
    )


def refund_of(
    slot: SlotCost, pieces: Iterable[PaidPiece], at: int, *, reclaimed: bool = False
) -> int:
    """Return what is paid back for `pieces` of `slot` that are given up at `at` (seconds UTC).

    If they are `reclaimed`, it is all that was not used.
    """
    given_up = [*pieces]
    cost = sum(piece.cost for piece in given_up)
    if reclaimed:
        return sum(_after(piece, at) for piece in given_up)
    if at <= slot.want.start - slot.free_until_s:
        return cost
    if at < slot.want.start:
        return cost - cost * slot.fee // 100
    rest = sum(_after(piece, at) for piece in given_up)
    return rest - rest * (100 - slot.unused) // 100


class OldTerms:
    """The slots of a reservation that is to be replaced, as far as nothing has taken its place yet."""

    def __init__(self, slots: Iterable[SlotCost] = ()) -> None:
        self._left: defaultdict[str, list[_PaidPart]] = defaultdict(list)
        for slot in slots:
            self._left[slot.want.resource] += [_PaidPart(piece, slot) for piece in slot.pieces]

    def take(self, want: Want) -> list[tuple[PaidPiece, SlotCost]]:
        """Take what `want` has in common with it: with the terms of the slots that it comes from."""
        parts = self._left.get(want.resource)
        if not parts:
            return []
        inside = [each for each in parts if _meets(each.piece, want)]
        cuts = sorted(
            {want.start, want.end}
            | {time for each in inside for time in (each.piece.start, each.piece.end)}
        )
        left = [each for each in parts if not _meets(each.piece, want)]
        taken: list[tuple[PaidPiece, SlotCost]] = []
        had: defaultdict[int, int] = defaultdict(int)
        for piece, slot in (cut for each in inside for cut in _cut(each, cuts)):
            within = want.start <= piece.start and piece.end <= want.end
            units = min(piece.units, want.units - had[piece.start]) if within else 0
            had[piece.start] += units
            if units:
                taken.append((_of_units(piece, units), slot))
            if units < piece.units:
                left.append(_PaidPart(_of_units(piece, piece.units - units), slot))
        self._left[want.resource] = left
        return taken

    def refund(self, at: int, *, reclaimed: bool) -> int:
        """Return what is paid back for all that is left, if it is given up at `at`."""
        by_slot: defaultdict[int, list[_PaidPart]] = defaultdict(list)
        for part in (each for parts in self._left.values() for each in parts):
            by_slot[id(part.slot)].append(part)
        return sum(
            refund_of(parts[0].slot, [each.piece for each in parts], at, reclaimed=reclaimed)
            for parts in by_slot.values()
        )


class _PaidPart(NamedTuple):
    piece: PaidPiece
    slot: SlotCost


def _meets(piece: PaidPiece, want: Want) -> bool:
    return piece.start < want.end and want.start < piece.end


def _cut(part: _PaidPart, cuts: Sequence[int]) -> Iterator[_PaidPart]:
    piece, slot = part
    times = [piece.start, *(each for each in cuts if piece.start < each < piece.end), piece.end]
    for start, end in pairwise(times):
        yield _PaidPart(PaidPiece(start, end, piece.units, piece.rate), slot)


def _of_units(piece: PaidPiece, units: int) -> PaidPiece:
    return PaidPiece(piece.start, piece.end, units, piece.rate)


def _after(piece: PaidPiece, at: int) -> int:
    return max(0, piece.end - max(piece.start, at)) * piece.units * piece.rate


def _uncovered(want: Want, kept: Sequence[PaidPiece]) -> list[tuple[int, int, int]]:
    """Return what `kept` leaves of `want`: ``(start, end, units)``, in order."""
    times = sorted({want.start, want.end} | {t for each in kept for t in (each.start, each.end)})
    found: list[tuple[int, int, int]] = []
    for start, end in pairwise(times):
        had = sum(each.units for each in kept if each.start <= start and end <= each.end)
        units = want.units - had
        if units <= 0:
            continue
        if found and found[-1][1] == start and found[-1][2] == units:
            found[-1] = (found[-1][0], end, units)
        else:
            found.append((start, end, units))
    return found


def _joined(pieces: Iterable[PaidPiece]) -> tuple[PaidPiece, ...]:
    """Join what touches and costs the same."""
    found: list[PaidPiece] = []
    for each in sorted(pieces, key=lambda each: (each.rate, each.units, each.start, each.end)):
        last = found[-1] if found else None
        same = last and (last.rate, last.units, last.end) == (each.rate, each.units, each.start)
        if last and same:
            found[-1] = PaidPiece(last.start, each.end, each.units, each.rate)
        else:
            found.append(each)
    return tuple(sorted(found, key=lambda each: (each.start, each.end, each.rate, each.units)))
