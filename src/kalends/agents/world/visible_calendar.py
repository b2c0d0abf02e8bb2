"""A resource as an agent's user may see it: the one source of all that its script is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from kalends.core import limits
from kalends.core.resources import ResourceInfo, Slot
from kalends.core.spans import Step

# The command line looks at calendars that were printed, and has no servers' parts.
if TYPE_CHECKING:
    from kalends.calendars import ResourceCalendar
    from kalends.core.principals import Principal

TAKEN_MAX: Final = 1_000
"""Taken slots of one resource that are shown, earliest first."""

STEPS_MAX: Final = 20_000
"""Free steps that one visit looks at, over all that it asks for: some 100 ms of a server's time."""

STEPS_EACH_MIN: Final = 40
"""Minimum of steps, however many asks: some two weeks of a busy calendar."""


class Shown(NamedTuple):
    """A visible calendar: `free` are sorted, disjoint steps that `user` could book; `taken` the rest.

    A taken slot names its holder only where that is `user`. `prices` say what a unit costs that user; none:
    it is free of charge.
    """

    info: ResourceInfo
    free: tuple[Step, ...]
    taken: tuple[Slot, ...] = ()
    user: str = ""
    prices: tuple[Step, ...] = ()

    def is_mine(self, slot: Slot) -> bool:
        return slot.holder == self.user != ""


def reached(shown: Mapping[str, Shown], through: tuple[str, ...]) -> dict[str, Shown]:
    """Return `shown` for a user whose broker comes by these virtual sites."""
    return {
        name: each._replace(info=replace(each.info, through=through))
        for name, each in shown.items()
    }


def steps_each(asks: int) -> int:
    """Return how many free steps each of the asks may examine."""
    return min(max(STEPS_MAX // max(asks, 1), STEPS_EACH_MIN), limits.VIEW_STEPS_MAX)


def look(
    calendar: ResourceCalendar,
    principal: Principal,
    start: int,
    end: int,
    wall_s: int,
    steps_max: int = limits.VIEW_STEPS_MAX,
    kept: Sequence[Step] = (),
) -> Shown | None:
    """Return what `principal` may see and book of `calendar` in ``[start, end)``; None if nothing.

    Slots that only touch the window are shown, too: one may want to book next to them. At most the
    first `steps_max` free steps: what comes later is as if it were not free. Nor is what is `kept` for
    those who were before.
    """
    if not calendar.visible_to(principal):
        return None
    if start >= end:
        return Shown(calendar.info, (), (), principal.user)
    less = [(begin, finish, -units) for begin, finish, units in kept]
    steps, _ = calendar.free_steps(principal, start, end, wall_s, steps_max, less)
    slots = calendar.slots(principal, start - 1, end + 1, min(TAKEN_MAX, steps_max))
    taken = tuple(_without_others(slot, principal.user) for slot in slots)
    prices = calendar.rules.prices
    if not prices:
        return Shown(calendar.info, tuple(steps), taken, principal.user)
    priced = tuple(islice(prices.steps(principal, start, end), limits.VIEW_STEPS_MAX))
    known = tuple(step for step in steps if step[1] <= priced[-1][1])
    return Shown(calendar.info, known, taken, principal.user, priced)


def _without_others(slot: Slot, user: str) -> Slot:
    holder = user if slot.holder == user else ""
    return Slot(slot.start, slot.end, slot.units, slot.state, holder)
