"""Cost of a start for others: time left idle, and queued requests that are delayed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kalends.broker.planning.in_flight import fits, without
from kalends.contract.calls import Price
from kalends.contract.messages import Want
from kalends.core.spans import Range, Step

Waiting = Mapping[str, Sequence[Want]]
"""By resource, what waits in line there."""


def price(
    wants: Iterable[Want], free: Mapping[str, Sequence[Step]], looked: Range, waiting: Waiting
) -> Price:
    """Return the price of booking `wants`, which are free.

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
        before: Sequence[Step] = free.get(name, ())
        after = before
        for want in of_resource:
            already = idle_unit_s(after, want, looked)
            after = list(without(after, [want]))
            idle += idle_unit_s(after, want, looked) - already
        delays += sum(
            fits([each], {name: before}) and not fits([each], {name: after})
            for each in waiting.get(name, ())
        )
    return Price(idle_unit_s=idle, delays=delays)


def idle_unit_s(steps: Sequence[Step], like: Want, looked: Range) -> int:
    """Return units x seconds in gaps that fit the units of `like` but not its length."""
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
