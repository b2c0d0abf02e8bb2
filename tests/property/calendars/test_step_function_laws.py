"""The step function, and calendars of thousands of bookings, against arrays with every second."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests import effort
from tests.support.bookings import booking

from kalends.calendars import Booking, CapacityCalendar
from kalends.calendars.structures.step_function import StepFunction
from kalends.core import limits
from kalends.core.errors import Conflict
from kalends.core.intervals import Interval


class Blocks2(StepFunction):
    BLOCK_POINTS = 2
    GROUP_BLOCKS = 2
    NEAR_POINTS = 1


class Blocks5(StepFunction):
    BLOCK_POINTS = 5
    GROUP_BLOCKS = 3
    NEAR_POINTS = 1


class Blocks30(StepFunction):
    BLOCK_POINTS = 30
    GROUP_BLOCKS = 4
    NEAR_POINTS = 3


class Calendar2(CapacityCalendar):
    _new_profile = Blocks2


class Calendar5(CapacityCalendar):
    _new_profile = Blocks5


class Calendar30(CapacityCalendar):
    _new_profile = Blocks30


KINDS = (Calendar2, Calendar5, Calendar30, CapacityCalendar)
seeds = st.integers(0, 2**32 - 1)


class Seconds:
    """What is free in every second of a horizon that everything happens in."""

    def __init__(self, capacity: int, horizon_s: int) -> None:
        self.capacity = capacity
        self.free = np.full(horizon_s, capacity)

    def first_fit(self, units: int, length_s: int, start: int, end: int) -> int | None:
        """All is free after the horizon."""
        count = len(self.free)
        low = np.concatenate((self.free, np.full(length_s + 1, self.capacity))) < units
        lows = np.concatenate(([0], low.cumsum()))
        good = (lows[length_s:] == lows[:-length_s])[: count + 1]
        found = start + good[start:].nonzero()[0]
        return int(found[0]) if found.size and found[0] + length_s <= end else None

    def gaps(self, units: int, start: int, end: int) -> list[Interval]:
        enough = np.concatenate(([False], self.free >= units, [True, False]))
        borders = (enough[1:] != enough[:-1]).nonzero()[0].reshape(-1, 2).tolist()
        gaps = [Interval(*border) for border in borders]
        gaps[-1] = Interval(gaps[-1].start, limits.TIME_S_MAX)
        return [gap for gap in gaps if gap.start < end and start < gap.end]


def random_booking(
    random: np.random.Generator, number: int, capacity: int, horizon_s: int, length_s_max: int
) -> Booking:
    length_s = int(random.integers(1, random.integers(2, length_s_max + 2)))
    start = int(random.integers(0, horizon_s - length_s))
    units = int(random.integers(1, random.integers(2, capacity // 2 + 3)))
    return booking(number, start, start + length_s, units=units)


def crowd(units: int, horizon_s: int) -> Booking:
    return booking(-1, 0, horizon_s, units=units, state="locked")


def ask(
    random: np.random.Generator,
    calendar: CapacityCalendar,
    seconds: Seconds,
    length_s_max: int,
    units_max: int,
) -> None:
    horizon_s = len(seconds.free)
    start, length_s = int(random.integers(0, horizon_s)), int(random.integers(1, length_s_max))
    end = start + int(random.integers(1, horizon_s))
    units = int(random.integers(1, units_max + 1))
    expected = seconds.first_fit(units, length_s, start, end)
    assert calendar.earliest_fit(units, length_s, start, end) == expected
    assert calendar.gaps(units, start, end) == seconds.gaps(units, start, end)
    free = seconds.free[start:end]
    assert calendar.free(start, end) == (
        min(int(free.min()), calendar.capacity if end > horizon_s else 1 << 40)
    )


@given(seeds, st.sampled_from([2, 3, 64, 1000, limits.UNITS_MAX]), st.sampled_from(KINDS))
@settings(max_examples=effort.examples(60), deadline=None)
def test_random_changes_and_searches_equal_counted_seconds(
    seed: int, capacity: int, kind: type[CapacityCalendar]
) -> None:
    random = np.random.default_rng(seed)
    horizon_s = int(random.choice([50, 300, 2_000]))
    length_s_max = int(random.choice([3, 12, horizon_s // 2]))
    calendar, seconds = kind(capacity), Seconds(capacity, horizon_s)
    room = capacity
    if capacity >= 1000 and random.random() < 0.5:
        # All that happens is within one or two of the steps that searches round to.
        room = 20
        calendar.book(crowd(capacity - room, horizon_s))
        seconds.free -= capacity - room
    booked: dict[int, Booking] = {}
    copies: list[tuple[CapacityCalendar, Seconds, dict[int, Booking]]] = []
    for number in range(150):
        turn = random.random()
        if booked and turn < 0.3:
            gone = booked.pop(int(random.choice(list(booked))))
            calendar.release(gone.id)
            seconds.free[gone.start : gone.end] += gone.units
        elif turn < 0.95:
            new = random_booking(random, number, room, horizon_s, length_s_max)
            if new.units > seconds.free[new.start : new.end].min():
                with pytest.raises(Conflict):
                    calendar.book(new)
            else:
                calendar.book(new)
                booked[number] = new
                seconds.free[new.start : new.end] -= new.units
        else:
            saved = Seconds(capacity, horizon_s)
            saved.free = seconds.free.copy()
            copies.append((calendar.copy(), saved, dict(booked)))
            if random.random() < 0.5:
                index = int(random.integers(len(copies)))
                here = (calendar, seconds, booked)
                calendar, seconds, booked = copies[index]
                copies[index] = here
        if random.random() < 0.7:
            ask(random, calendar, seconds, length_s_max, room)
        if number % 10 == 0:
            calendar.check()
            for copy, saved, _ in copies:
                copy.check()
                ask(random, copy, saved, length_s_max, room)
        effort.steps["capacity calendars by the second"] += 1


@given(seeds, st.sampled_from([Calendar30, CapacityCalendar]))
@settings(max_examples=effort.examples(6), deadline=None)
def test_thousands_of_bookings_loaded_equal_those_booked_and_counted_seconds(
    seed: int, kind: type[CapacityCalendar]
) -> None:
    random = np.random.default_rng(seed)
    capacity, horizon_s = int(random.choice([100, 1000, 100_000])), 40_000
    one_by_one, seconds = kind(capacity), Seconds(capacity, horizon_s)
    taken: list[Booking] = []
    for number in range(3_000):
        new = random_booking(random, number, capacity // 20, horizon_s, 1_500)
        if new.units <= seconds.free[new.start : new.end].min():
            one_by_one.book(new)
            taken.append(new)
            seconds.free[new.start : new.end] -= new.units
    loaded = kind(capacity)
    half = len(taken) // 2
    loaded.load(taken[:half])
    loaded.load(iter(taken[half:]))
    for calendar in (one_by_one, loaded):
        calendar.check()
        for _ in range(60):
            ask(random, calendar, seconds, 4_000, capacity)
        assert equal(unrolled(calendar, horizon_s), seconds.free)
    assert one_by_one.listing(0, horizon_s) == loaded.listing(0, horizon_s)
    effort.steps["capacity calendars by the second"] += len(taken)


def unrolled(calendar: CapacityCalendar, horizon_s: int) -> NDArray[np.int64]:
    steps = calendar.steps(0, horizon_s)
    return np.repeat([step[2] for step in steps], [step[1] - step[0] for step in steps])


def equal(left: NDArray[np.int64], right: NDArray[np.int64]) -> bool:
    return bool((left == right).all())


@given(seeds, st.sampled_from([Blocks2, Blocks5, StepFunction]))
@settings(max_examples=effort.examples(40), deadline=None)
def test_equal_functions_have_equal_points_however_they_came_about(
    seed: int, kind: type[StepFunction]
) -> None:
    random = np.random.default_rng(seed)
    slots = [
        (start, start + int(random.integers(1, 30)), int(random.integers(1, 4)))
        for start in random.integers(0, 100, 60).tolist()
    ]
    extra = [(start, start + 7, 2) for start in range(0, 100, 3)]
    detour, direct, at_once = kind(1000), kind(1000), kind(1000)
    for start, end, amount in slots + extra:
        detour.add(start, end, -amount)
    for start, end, amount in extra:
        detour.add(start, end, amount)
        detour.check()
    for start, end, amount in slots[::-1]:
        direct.add(start, end, -amount)
    starts, ends, amounts = (np.array(column) for column in zip(*slots, strict=True))
    assert at_once.add_all(starts, ends, -amounts)
    for function in (direct, at_once):
        function.check()
        for mine, other in zip(function._points(), detour._points(), strict=True):
            assert mine.tolist() == other.tolist()


@given(seeds, st.sampled_from([Blocks2, Blocks5, Blocks30]))
@settings(max_examples=effort.examples(12), deadline=None)
def test_blocks_stay_neither_too_large_nor_too_small_while_a_function_grows_and_shrinks(
    seed: int, kind: type[StepFunction]
) -> None:
    random = np.random.default_rng(seed)
    function, horizon_s = kind(1000), int(random.choice([60, 400]))
    slots: list[tuple[int, int]] = []
    for _ in range(3):
        for start in random.integers(0, horizon_s, 150).tolist():
            slots.append((start, start + int(random.integers(1, 20))))
            function.add(*slots[-1], -1)
        function.check()
        random.shuffle(slots)
        while len(slots) > 20:
            function.add(*slots.pop(), 1)
            function.check()
    for slot in slots:
        function.add(*slot, 1)
    function.check()
    assert list(function.walk(0, horizon_s)) == [(0, horizon_s, 1000)]
