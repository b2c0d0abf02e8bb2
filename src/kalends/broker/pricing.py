"""What a start would cost others: time that it leaves idle, and requests in line that it delays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kalends.broker.starts import Range, Step
from kalends.core.api import Price
from kalends.core.messages import Want

Waiting = Mapping[str, Sequence[tuple[int, int, int]]]
"""By resource, what waits in line there: ``(start, end, units)`` of each."""


def price(
    wants: Iterable[Want], free: Mapping[str, Sequence[Step]], looked: Range, waiting: Waiting
) -> Price:
    """The price of booking `wants`, which are free.

    *Idle* are the units of a booking in gaps that are too short for another of its length. Counted is
    what is idle more than without the booking; a gap that reaches the border of the times `looked` at
    may be longer than it seems, and is not counted.

    *Delayed* are requests in line that `free` has room for, and would not have any more.
    """
    by_resource: dict[str, list[Want]] = {}
    for want in wants:
        by_resource.setdefault(want.resource, []).append(want)
    idle = delays = 0
    for name, of_resource in by_resource.items():
        steps: Sequence[Step] = free.get(name, ())
        before = steps
        for want in of_resource:
            after = without(steps, want)
            idle += idle_unit_s(after, want, looked) - idle_unit_s(steps, want, looked)
            steps = after
        delays += sum(
            least_free(before, begin, end) >= units > least_free(steps, begin, end)
            for begin, end, units in waiting.get(name, ())
        )
    return Price(idle_unit_s=idle, delays=delays)


def idle_unit_s(steps: Sequence[Step], like: Want, looked: Range) -> int:
    """Units x seconds in stretches with room for the units of `like`, but too short for its length."""
    idle_s = 0
    begin = end = None
    for step_start, step_end, units in [*steps, (looked[1] + 1, looked[1] + 1, 0)]:
        fits = units >= like.units
        if begin is not None and end is not None and (not fits or step_start != end):
            known = looked[0] < begin and end < looked[1]
            idle_s += end - begin if known and end - begin < like.end - like.start else 0
            begin = None
        if fits:
            begin, end = step_start if begin is None else begin, step_end
    return idle_s * like.units


def without(steps: Sequence[Step], want: Want) -> list[Step]:
    """`steps` less what `want` takes of them."""
    left: list[Step] = []
    for begin, end, units in steps:
        inside = max(begin, want.start), min(end, want.end)
        if inside[0] >= inside[1]:
            left.append((begin, end, units))
            continue
        pieces = (
            (begin, inside[0], units), (*inside, units - want.units), (inside[1], end, units),
        )  # fmt: skip
        left += [piece for piece in pieces if piece[0] < piece[1] and piece[2] > 0]
    return left


def least_free(steps: Sequence[Step], begin: int, end: int) -> int:
    """The units that are free all along."""
    least: int | None = None
    at = begin
    for start, until, units in steps:
        if until <= at or start >= end:
            continue
        if start > at:
            return 0
        least = units if least is None else min(least, units)
        at = until
    return 0 if least is None or at < end else least
