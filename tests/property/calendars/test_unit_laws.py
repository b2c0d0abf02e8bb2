"""The unit calendar and its gaps, in tiny blocks, against lists that are searched from end to end."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests import effort
from tests.support import bookings

from kalends.calendars import Booking, UnitCalendar, unit
from kalends.calendars.structures import gap_blocks
from kalends.calendars.structures.gap_blocks import GapBlocks, Stretch
from kalends.core.errors import Conflict, InvalidInput, NotFound
from kalends.core.intervals import Interval
from kalends.core.limits import TIME_S_MAX

near_zero = st.integers(0, 60)
near_the_end = st.integers(TIME_S_MAX - 12, TIME_S_MAX)
times = st.one_of(near_zero, near_zero, near_zero, near_the_end)
lengths = st.integers(1, 6)
slots = st.lists(st.tuples(times, lengths), max_size=12)
which = st.integers(0, 3)


class TinyBlocks(RuleBasedStateMachine):
    """Patches the sizes, so that a few bookings are many blocks and groups."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()

    def make_tiny(self, block_max: int, group: int, rebuild_share: int) -> None:
        self.patch.setattr(gap_blocks, "BLOCK_MAX", block_max)
        self.patch.setattr(gap_blocks, "GROUP", group)
        self.patch.setattr(unit, "REBUILD_SHARE", rebuild_share)

    def teardown(self) -> None:
        self.patch.undo()


def overlapping(stretches: list[Stretch], start: int, end: int) -> list[Stretch]:
    return [each for each in sorted(stretches) if each[0] < end and start < each[1]]


def earliest(stretches: list[Stretch], length_s: int, start: int) -> int:
    candidates = [start, *(end for _, end, _ in stretches if end > start)]
    return min(at for at in candidates if not overlapping(stretches, at, at + length_s))


def gaps(stretches: list[Stretch], start: int, end: int, first: int, last: int) -> list[Interval]:
    borders = [first, *(at for stretch in sorted(stretches) for at in stretch[:2]), last]
    pairs = [Interval(*pair) for pair in zip(borders[::2], borders[1::2], strict=True)]
    return [gap for gap in pairs if gap.start < gap.end and gap.overlaps(Interval(start, end))]


class GapBlocksAgainstList(TinyBlocks):
    @initialize(
        block_max=st.sampled_from([2, 3, 8]), group=st.sampled_from([1, 2, 3]), stretches=slots
    )
    def begin(self, block_max: int, group: int, stretches: list[tuple[int, int]]) -> None:
        self.make_tiny(block_max, group, 0)
        self.pairs: list[tuple[GapBlocks, list[Stretch]]] = [(GapBlocks(), [])]
        self.add(0, stretches)

    def pair(self, number: int) -> tuple[GapBlocks, list[Stretch]]:
        return self.pairs[number % len(self.pairs)]

    @rule(number=which, stretches=slots)
    def add(self, number: int, stretches: list[tuple[int, int]]) -> None:
        blocks, twin = self.pair(number)
        for start, length_s in stretches:
            stretch = (start, start + length_s, len(twin))
            free = not overlapping(twin, *stretch[:2])
            assert blocks.taken(*stretch[:2]) is not free
            assert blocks.add(*stretch) is free
            if free:
                twin.append(stretch)

    @rule(
        number=which,
        start=near_zero,
        count=st.integers(1, 30),
        length_s=st.integers(1, 3),
        gap_s=st.integers(0, 4),
        growth_s=st.sampled_from([0, 0, 1]),
        backwards=st.booleans(),
    )
    def add_a_row(
        self,
        number: int,
        start: int,
        count: int,
        length_s: int,
        gap_s: int,
        growth_s: int,
        backwards: bool,
    ) -> None:
        row = []
        for nth in range(count):
            row.append((start, length_s))
            start += length_s + gap_s + growth_s * nth
        self.add(number, row[::-1] if backwards else row)

    @rule(number=which, first=st.integers(0, 30), count=st.integers(1, 30), backwards=st.booleans())
    def remove_neighbours(self, number: int, first: int, count: int, backwards: bool) -> None:
        blocks, twin = self.pair(number)
        row = sorted(twin)[first:][:count]
        for stretch in row[::-1] if backwards else row:
            twin.remove(stretch)
            blocks.remove(stretch[0])

    @rule(number=which, chosen=st.lists(st.integers(0, 30), min_size=1, max_size=8))
    def remove(self, number: int, chosen: list[int]) -> None:
        blocks, twin = self.pair(number)
        for index in chosen:
            if twin:
                blocks.remove(twin.pop(index % len(twin))[0])

    @rule(number=which, replaced=which)
    def copy(self, number: int, replaced: int) -> None:
        blocks, twin = self.pair(number)
        if len(self.pairs) == 4:
            del self.pairs[replaced]
        self.pairs.append((blocks.copy(), list(twin)))

    @rule(number=which, stretches=slots)
    def build_at_once(self, number: int, stretches: list[tuple[int, int]]) -> None:
        blocks, twin = self.pair(number)
        every = [*twin, *((start, start + length_s, -1) for start, length_s in stretches)]
        if all(one[1] <= other[0] for one, other in pairwise(sorted(every))):
            self.pairs[number % len(self.pairs)] = (GapBlocks(every[::-1]), every)
        else:
            with pytest.raises(ValueError, match="overlap"):
                GapBlocks([*blocks, *every[len(twin) :]])

    @rule(number=which, start=st.integers(-3, 200) | near_the_end, length_s=st.integers(1, 40))
    def ask(self, number: int, start: int, length_s: int) -> None:
        blocks, twin = self.pair(number)
        end = start + length_s
        assert blocks.earliest(length_s, start) == earliest(twin, length_s, start)
        assert blocks.taken(start, end) is bool(overlapping(twin, start, end))
        assert list(blocks.keys(start, end)) == [key for _, _, key in overlapping(twin, start, end)]
        whole = gaps(twin, start, end, min(start, 0), max(end, TIME_S_MAX + 9))
        assert list(blocks.gaps(start, end, TIME_S_MAX + 9)) == whole

    @rule(number=which, start=st.integers(0, 120))
    def ask_for_the_lengths_of_gaps(self, number: int, start: int) -> None:
        blocks, twin = self.pair(number)
        known = {gap.length_s for gap in gaps(twin, 0, TIME_S_MAX, 0, TIME_S_MAX)}
        for length_s in known | {length_s + 1 for length_s in known}:
            assert blocks.earliest(length_s, start) == earliest(twin, length_s, start)

    @invariant()
    def every_copy_is_its_own(self) -> None:
        effort.steps["gaps of a unit calendar"] += len(self.pairs)
        for blocks, twin in self.pairs:
            blocks.check()
            assert list(blocks) == sorted(twin)
            assert len(blocks) == len(twin)


TestGapBlocksAgainstList = GapBlocksAgainstList.TestCase
TestGapBlocksAgainstList.settings = settings(
    max_examples=effort.examples(200), stateful_step_count=20
)


def test_blocks_are_joined_where_half_a_block_holds_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gap_blocks, "BLOCK_MAX", 8)
    blocks = GapBlocks((10 * nth, 10 * nth + 1, nth) for nth in range(12))
    blocks.add(65, 66, 12)
    blocks.add(75, 76, 13)
    for start in (0, 10, 20, 30, 40):
        blocks.remove(start)
        blocks.check()
    assert [len(block.starts) for block in blocks._blocks] == [1, 8]
    for start in (65, 70, 75, 80, 90, 100, 110):
        blocks.remove(start)
        blocks.check()
    assert [len(block.starts) for block in blocks._blocks] == [2]


def booking(booking_id: int, start: Any, end: Any) -> Booking:
    holder = f"user{booking_id % 3}"
    return bookings.booking(booking_id, start, end, holder=holder, reservation=f"r{booking_id}")


Bookings = dict[int, Booking]


def stretches_of(bookings: Bookings) -> list[Stretch]:
    return sorted((each.start, each.end, each.id) for each in bookings.values())


def refusal_in_turn(bookings: Bookings, new: list[Booking]) -> type[Exception] | None:
    """What booking `new` one after the other ends with."""
    known = dict(bookings)
    for each in new:
        if each.start >= each.end or each.end > TIME_S_MAX:
            return InvalidInput
        if each.id in known or overlapping(stretches_of(known), each.start, each.end):
            return Conflict
        known[each.id] = each
    return None


class UnitCalendarAgainstDict(TinyBlocks):
    @initialize(
        block_max=st.sampled_from([2, 3, 8]),
        group=st.sampled_from([1, 2, 3]),
        rebuild_share=st.sampled_from([0, 16]),
        taken=slots,
    )
    def begin(
        self, block_max: int, group: int, rebuild_share: int, taken: list[tuple[int, int]]
    ) -> None:
        self.make_tiny(block_max, group, rebuild_share)
        self.pairs: list[tuple[UnitCalendar, Bookings]] = [(UnitCalendar(), {})]
        for number, (start, length_s) in enumerate(taken):
            self.load(0, [(number, start, length_s)])

    def pair(self, number: int) -> tuple[UnitCalendar, Bookings]:
        return self.pairs[number % len(self.pairs)]

    @rule(
        number=which,
        slots=st.lists(st.tuples(st.integers(0, 30), times, st.integers(0, 6)), max_size=4),
    )
    def load(self, number: int, slots: list[tuple[int, int, int]]) -> None:
        calendar, twin = self.pair(number)
        new = [booking(each, start, start + length_s) for each, start, length_s in slots]
        error = refusal_in_turn(twin, new)
        if error is not None:
            with pytest.raises(error):
                calendar.load(new)
        else:
            calendar.load(new)
            twin.update((each.id, each) for each in new)

    @rule(number=which, slots=slots)
    def book(self, number: int, slots: list[tuple[int, int]]) -> None:
        calendar, twin = self.pair(number)
        for start, length_s in slots:
            new = booking(max(twin, default=30) + 1, start, start + length_s)
            error = refusal_in_turn(twin, [new])
            if error is not None:
                with pytest.raises(error):
                    calendar.book(new)
            else:
                calendar.book(new)
                twin[new.id] = new

    @rule(number=which, first=st.integers(0, 30), count=st.integers(1, 8))
    def release_neighbours(self, number: int, first: int, count: int) -> None:
        calendar, twin = self.pair(number)
        for _, _, booking_id in stretches_of(twin)[first:][:count]:
            assert calendar.release(booking_id) == twin.pop(booking_id)
            with pytest.raises(NotFound):
                calendar.release(booking_id)

    @rule(number=which, replaced=which)
    def copy(self, number: int, replaced: int) -> None:
        calendar, twin = self.pair(number)
        if len(self.pairs) == 4:
            del self.pairs[replaced]
        self.pairs.append((calendar.copy(), dict(twin)))

    @rule(
        number=which,
        start=st.integers(-3, 70) | near_the_end,
        length_s=st.integers(1, 40),
        count_max=st.none() | st.integers(0, 4),
    )
    def look(self, number: int, start: int, length_s: int, count_max: int | None) -> None:
        calendar, twin = self.pair(number)
        end = start + length_s
        stretches = stretches_of(twin)
        found = [twin[key] for _, _, key in overlapping(stretches, start, end)]
        assert calendar.listing(start, end, count_max) == found[:count_max]
        assert calendar.free(start, end) == (0 if found else 1)
        assert calendar.gaps(1, start, end) == gaps(stretches, start, end, 0, TIME_S_MAX)
        assert calendar.gaps(2, start, end) == []
        steps = calendar.steps(start, end)
        borders = [start, *(opens for opens, _, _ in steps[1:]), end]
        assert [step[:2] for step in steps] == list(pairwise(borders))
        assert all(one[2] != other[2] for one, other in pairwise(steps))
        for opens, closes, units in steps:
            assert opens < closes
            inside = overlapping(stretches, opens, closes)
            busy_s = sum(min(b, closes) - max(a, opens) for a, b, _ in inside)
            assert busy_s == (0 if units else closes - opens)

    @rule(
        number=which,
        length_s=st.integers(1, 20),
        not_before=st.integers(-3, 70) | near_the_end,
        not_after=st.integers(0, 90) | near_the_end,
        borders=st.none() | st.sets(st.integers(0, 90) | near_the_end, max_size=8),
    )
    def search(
        self,
        number: int,
        length_s: int,
        not_before: int,
        not_after: int,
        borders: set[int] | None,
    ) -> None:
        calendar, twin = self.pair(number)
        stretches = stretches_of(twin)
        windows = [Interval(not_before, not_after)]
        if borders is not None:
            ordered = sorted(borders)
            windows = [Interval(*pair) for pair in zip(ordered[::2], ordered[1::2], strict=False)]
        fits = (earliest(stretches, length_s, max(window.start, not_before)) for window in windows)
        inside = [
            fit
            for fit, window in zip(fits, windows, strict=True)
            if fit + length_s <= min(window.end, not_after)
        ]
        found = calendar.earliest_fit(
            1, length_s, not_before, not_after, None if borders is None else windows
        )
        assert found == min(inside, default=None)
        fit = earliest(stretches, length_s, not_before)
        assert calendar.earliest_fit(1, length_s, not_before, fit + length_s) == fit
        assert calendar.earliest_fit(1, length_s, not_before, fit + length_s - 1) is None

    @invariant()
    def every_copy_is_its_own(self) -> None:
        effort.steps["unit calendars"] += len(self.pairs)
        for calendar, twin in self.pairs:
            calendar.check()
            assert calendar.listing(-1, TIME_S_MAX + 1) == [
                twin[key] for _, _, key in stretches_of(twin)
            ]


TestUnitCalendarAgainstDict = UnitCalendarAgainstDict.TestCase
TestUnitCalendarAgainstDict.settings = settings(
    max_examples=effort.examples(100), stateful_step_count=20
)
