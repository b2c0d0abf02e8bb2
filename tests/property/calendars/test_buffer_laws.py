"""Buffers of owners, compared with a slow twin that hands out units by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.calendars import (
    Booking,
    Buffer,
    OwnerRules,
    Recurrence,
    ResourceCalendar,
    open_access,
)
from kalends.calendars.profiles import at_least, eroded, join
from kalends.core.errors import Conflict
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo

DAY = 86_400
T0 = 20_000 * DAY
MINUTE = 60
LAST = 90
OPENS = (0, 17, 34, 51)
"""Minutes at which 14 minutes of opening hours begin."""

ANN = Principal("ann")

numbers = st.integers(0, 4)
slots = st.tuples(st.integers(0, 60), st.integers(1, 8), st.integers(1, 3))


class Slot(NamedTuple):
    """Minutes, and units."""

    start: int
    end: int
    units: int


class Twin:
    """Units with names: each booking is given units that were cleared, and can be set up, before it."""

    def __init__(self, capacity: int, buffer: Buffer) -> None:
        self.capacity, self.buffer = capacity, buffer
        self.slots: list[Slot] = []

    def fits(self, new: Slot) -> bool:
        units: list[list[Slot]] = [[] for _ in range(self.capacity)]
        return self._assigned(sorted([*self.slots, new]), units)

    def _assigned(self, left: list[Slot], units: list[list[Slot]]) -> bool:
        if not left:
            return True
        slot, rest = left[0], left[1:]
        ready = [unit for unit in units if all(self._apart(each, slot) for each in unit)]
        if len(ready) < slot.units:
            return False
        # Whoever begins last is last on each unit: which of the ready ones it gets does not matter, but try.
        for chosen in (ready[: slot.units], ready[-slot.units :]):
            for unit in chosen:
                unit.append(slot)
            if self._assigned(rest, units):
                return True
            for unit in chosen:
                unit.pop()
        return False

    def _apart(self, one: Slot, other: Slot) -> bool:
        first, second = sorted((one, other))
        ready_s = (second.start - first.end) * MINUTE
        before, after = self.buffer.before_s, self.buffer.after_s
        if ready_s < self.buffer.gap_s:
            return False
        if self.buffer.shared:
            return ready_s >= before and ready_s >= after
        return ready_s >= before + after


def calendar_with(capacity: int, buffer: Buffer, hours: bool) -> ResourceCalendar:
    info = ResourceInfo(name="site/thing", capacity=capacity, grain_s=MINUTE)
    times = tuple(
        Recurrence("FREQ=DAILY", f"00:{minute:02}", 14 * MINUTE, "UTC")
        for minute in (OPENS if hours else ())
    )
    return ResourceCalendar(info, open_access(), times, OwnerRules(buffer=buffer))


def is_open(start: int, end: int, hours: bool) -> bool:
    return not hours or any(begin <= start and end <= begin + 14 for begin in OPENS)


def booked(calendar: ResourceCalendar, number: int, slot: Slot) -> bool:
    gap_s = calendar.gap_s
    try:
        calendar.book(
            Booking(
                id=number,
                start=T0 + slot.start * MINUTE,
                end=T0 + slot.end * MINUTE + gap_s,
                units=slot.units,
                state="locked",
                holder="ann",
                reservation=str(number),
                gap_s=gap_s,
            )
        )
    except Conflict:
        return False
    return True


buffers = st.builds(
    lambda before, after, gap, shared: Buffer(
        before * MINUTE, after * MINUTE, gap * MINUTE, shared=shared and bool(before and after)
    ),
    numbers, numbers, st.sampled_from((0, 0, 3, 7)), st.booleans(),
)  # fmt: skip


@given(st.sampled_from((1, 1, 2, 3)), buffers, st.booleans(), st.lists(slots, max_size=9), slots)
@settings(max_examples=effort.examples(150), deadline=None)
def test_what_is_shown_found_and_booked_is_what_a_twin_with_named_units_would_give(
    capacity: int,
    buffer: Buffer,
    hours: bool,
    tried: list[tuple[int, int, int]],
    searched: tuple[int, int, int],
) -> None:
    calendar, twin = calendar_with(capacity, buffer, hours), Twin(capacity, buffer)
    now_s = T0 - DAY
    for number, (start, length, units) in enumerate(tried):
        slot = Slot(start, start + length, min(units, capacity))
        shown, _ = calendar.free_steps(ANN, T0, T0 + LAST * MINUTE, now_s, 1_000)
        can = twin.fits(slot)
        told = any(
            window.start <= T0 + slot.start * MINUTE and T0 + slot.end * MINUTE <= window.end
            for window in at_least(shown, slot.units)
        )
        assert told == (can and is_open(slot.start, slot.end, hours))
        if booked(calendar, number, slot):
            assert can
            twin.slots.append(slot)
        else:
            assert not can
        calendar.check()
        effort.steps["buffers"] += 1
    _, length, units = searched
    found = calendar.earliest_fit(
        ANN, min(units, capacity), length * MINUTE, T0, T0 + LAST * MINUTE, now_s
    )
    first = next(_starts(twin, length, min(units, capacity), hours), None)
    assert found == (None if first is None else T0 + first * MINUTE)
    seen = calendar.slots(ANN, T0, T0 + LAST * MINUTE, 100)
    assert sorted((each.start, each.end) for each in seen) == sorted(
        (T0 + slot.start * MINUTE, T0 + slot.end * MINUTE) for slot in twin.slots
    )


def _starts(twin: Twin, length: int, units: int, hours: bool) -> Iterator[int]:
    for start in range(LAST - length + 1):
        if is_open(start, start + length, hours) and twin.fits(Slot(start, start + length, units)):
            yield start


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3)), min_size=1), st.integers(1, 9))
def test_an_eroded_profile_is_the_least_of_the_next_seconds(
    parts: list[tuple[int, int]], gap_s: int
) -> None:
    steps, at = [], 5
    for length, units in parts:
        steps.append((at, at + length, units))
        at += length
    flat = {t: units for start, end, units in steps for t in range(start, end)}
    found = list(join(eroded(iter(steps), gap_s)))
    assert {t: units for start, end, units in found for t in range(start, end)} == {
        t: min(flat.get(each, 9) for each in range(t, t + gap_s + 1)) for t in flat
    }
