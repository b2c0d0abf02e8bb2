"""Both calendars against a twin that counts every second of a small horizon."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests import effort
from tests.support import bookings

from kalends.calendars import Booking, Calendar, CapacityCalendar, UnitCalendar
from kalends.calendars.structures.step_function import StepFunction
from kalends.core import limits
from kalends.core.errors import Conflict, InvalidInput, NotFound
from kalends.core.intervals import Interval

HORIZON_S = 40

LENGTH_S_MAX = 12

times = st.integers(0, HORIZON_S)
permilles = st.integers(1, 1_300)
"""Of a capacity; see `scaled`."""
ids = st.integers(1, 12)
nonsense: st.SearchStrategy[Any] = st.sampled_from(
    [True, False, 1.0, float("nan"), float("inf"), "1", None, (), [], 10**40, -(10**40)]
)


class TinyBlocks(StepFunction):
    """Splits, joins and groups all the time."""

    BLOCK_POINTS = 2
    GROUP_BLOCKS = 2


class SmallBlocks(StepFunction):
    BLOCK_POINTS = 4
    GROUP_BLOCKS = 3


class TinyCalendar(CapacityCalendar):
    _new_profile = TinyBlocks


class SmallCalendar(CapacityCalendar):
    _new_profile = SmallBlocks


def scaled(capacity: int, permille: int) -> int:
    """Units out of a capacity, a few of them too many."""
    return max(1, capacity * permille // 950)


class SlowTwin:
    """A dict of bookings; every answer is worked out second by second."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.bookings: dict[int, Booking] = {}

    def copy(self) -> SlowTwin:
        twin = SlowTwin(self.capacity)
        twin.bookings = dict(self.bookings)
        return twin

    def refusal(self, new: Booking) -> type[Exception] | None:
        if new.units > self.capacity:
            return InvalidInput
        if new.id in self.bookings or self.free(new.start, new.end) < new.units:
            return Conflict
        return None

    def free_at(self, time_s: int) -> int:
        return self.capacity - sum(
            b.units for b in self.bookings.values() if b.start <= time_s < b.end
        )

    def free(self, start: int, end: int) -> int:
        return min(self.free_at(time_s) for time_s in range(start, end))

    def steps(self, start: int, end: int) -> list[tuple[int, int, int]]:
        steps: list[tuple[int, int, int]] = []
        for time_s in range(start, end):
            free = self.free_at(time_s)
            if steps and steps[-1][2] == free:
                steps[-1] = (steps[-1][0], time_s + 1, free)
            else:
                steps.append((time_s, time_s + 1, free))
        return steps

    def listing(self, start: int, end: int) -> list[Booking]:
        found = [b for b in self.bookings.values() if b.start < end and start < b.end]
        return sorted(found, key=lambda b: (b.start, b.end, b.id))

    def gaps(self, units: int, start: int, end: int, base: int) -> list[Interval]:
        """Everything happens within the horizon from `base` on."""
        last = base + HORIZON_S + LENGTH_S_MAX
        gaps: list[Interval] = []
        seconds = {0, *range(max(base - 1, 0), last), limits.TIME_S_MAX - 1}
        ends = [*sorted(seconds)[1:], limits.TIME_S_MAX]
        for time_s, until in zip(sorted(seconds), ends, strict=True):
            if self.free_at(time_s) < units:
                continue
            opened = gaps.pop().start if gaps and gaps[-1].end == time_s else time_s
            gaps.append(Interval(opened, until))
        return [gap for gap in gaps if gap.start < end and start < gap.end]

    def earliest_fit(
        self,
        units: int,
        length_s: int,
        not_before: int,
        not_after: int,
        windows: list[Interval] | None,
    ) -> int | None:
        for start in range(not_before, not_after - length_s + 1):
            slot = Interval(start, start + length_s)
            inside = windows is None or any(a <= slot.start and slot.end <= b for a, b in windows)
            if inside and self.free(*slot) >= units:
                return start
        return None


def booking(
    booking_id: Any,
    start: Any,
    end: Any,
    units: Any = 1,
    state: Any = "held",
) -> Booking:
    return bookings.booking(
        booking_id, start, end, units=units, state=state, holder=f"user{booking_id}",
        reservation=f"r{booking_id}",
    )  # fmt: skip


def book_in_turn(calendar: Calendar, new: list[Booking]) -> None:
    for each in new:
        calendar.book(each)


@st.composite
def window_lists(draw: st.DrawFn) -> list[Interval]:
    """Sorted, disjoint windows that do not touch."""
    borders = sorted(draw(st.sets(times, max_size=8)))
    return [Interval(*pair) for pair in zip(borders[::2], borders[1::2], strict=False)]


class CalendarsAgainstTwin(RuleBasedStateMachine):
    """All times are after `base`, so that the last second there is gets booked too."""

    @initialize(
        capacity=st.sampled_from([1, 1, 2, 3, 64, 1000]),
        base=st.sampled_from([0, limits.TIME_S_MAX - HORIZON_S - LENGTH_S_MAX]),
        slots=st.lists(st.tuples(times, st.integers(1, 8), permilles), max_size=12),
    )
    def begin(self, capacity: int, base: int, slots: list[tuple[int, int, int]]) -> None:
        self.base = base
        self.twin = SlowTwin(capacity)
        self.calendars: list[Calendar] = [
            CapacityCalendar(capacity),
            TinyCalendar(capacity),
            SmallCalendar(capacity),
        ]
        if capacity == 1:
            self.calendars.append(UnitCalendar())
        self.others: list[tuple[SlowTwin, list[Calendar]]] = []
        for number, (start, length_s, permille) in enumerate(slots, 1):
            self.book(number, start, length_s, permille, "held")

    def new(
        self,
        booking_id: int,
        start: int,
        length_s: int,
        permille: int,
        state: str,
    ) -> Booking:
        start += self.base
        units = scaled(self.twin.capacity, permille)
        return booking(booking_id, start, start + length_s, units, state)

    @rule(
        booking_id=ids,
        start=times,
        length_s=st.integers(1, LENGTH_S_MAX),
        permille=permilles,
        state=st.sampled_from(["held", "locked", "prepared"]),
    )
    def book(
        self,
        booking_id: int,
        start: int,
        length_s: int,
        permille: int,
        state: str,
    ) -> None:
        new = self.new(booking_id, start, length_s, permille, state)
        error = self.twin.refusal(new)
        for calendar in self.calendars:
            if error is None:
                calendar.book(new)
            else:
                with pytest.raises(error):
                    calendar.book(new)
        if error is None:
            self.twin.bookings[booking_id] = new

    @rule(
        slots=st.lists(
            st.tuples(
                ids,
                times,
                st.integers(1, LENGTH_S_MAX),
                permilles,
                st.sampled_from(["held", "held", "locked"]),
            ),
            max_size=5,
        )
    )
    def load(self, slots: list[tuple[int, int, int, int, str]]) -> None:
        new = [self.new(*slot) for slot in slots]
        after, error = self.twin.copy(), None
        for each in new:
            error = after.refusal(each)
            if error is not None:
                break
            after.bookings[each.id] = each
        for calendar in self.calendars:
            if error is None:
                calendar.load(each for each in new)
                continue
            with pytest.raises(error) as refused:
                calendar.load(each for each in new)
            with pytest.raises(error) as expected:
                book_in_turn(calendar.copy(), new)
            assert str(refused.value) == str(expected.value)
        if error is None:
            self.twin = after

    @rule(
        field=st.sampled_from(["booking_id", "start", "end", "units", "state"]),
        value=nonsense,
    )
    def book_nonsense(self, field: str, value: Any) -> None:
        good = {"booking_id": 99, "start": 20, "end": 20, "units": 1, "state": "held"}
        if field == "booking_id" and type(value) is int:
            value = 1.0
        for calendar in self.calendars:
            with pytest.raises(InvalidInput):
                calendar.book(booking(**{**good, "end": 21, field: value}))
            with pytest.raises(InvalidInput):
                calendar.book(booking(**{**good, "end": 19}))

    @rule(booking_id=ids)
    def release(self, booking_id: int) -> None:
        for calendar in self.calendars:
            if booking_id in self.twin.bookings:
                assert calendar.release(booking_id) == self.twin.bookings[booking_id]
            else:
                with pytest.raises(NotFound):
                    calendar.release(booking_id)
        self.twin.bookings.pop(booking_id, None)

    @rule(value=nonsense)
    def release_or_get_nonsense(self, value: Any) -> None:
        for calendar in self.calendars:
            for call in (calendar.release, calendar.get):
                with pytest.raises(NotFound):
                    call(value)

    @rule(
        booking_id=ids,
        state=st.sampled_from(["held", "held", "prepared", "locked", "gone"]),
    )
    def change_state(self, booking_id: int, state: Any) -> None:
        old = self.twin.bookings.get(booking_id)
        error: type[Exception] | None = None
        if old is None:
            error = NotFound
        elif state == "gone":
            error = InvalidInput
        for calendar in self.calendars:
            if error is None:
                calendar.change_state(booking_id, state)
            else:
                with pytest.raises(error):
                    calendar.change_state(booking_id, state)
        if error is None and old is not None:
            self.twin.bookings[booking_id] = booking(
                booking_id, old.start, old.end, old.units, state
            )

    @rule(
        start=st.integers(-5, HORIZON_S),
        length_s=st.integers(1, 20),
        count_max=st.none() | st.integers(0, 4),
    )
    def look_at_a_window(self, start: int, length_s: int, count_max: int | None) -> None:
        start += self.base
        end = start + length_s
        for calendar in self.calendars:
            assert calendar.free(start, end) == self.twin.free(start, end)
            assert calendar.steps(start, end) == self.twin.steps(start, end)
            listed = self.twin.listing(start, end)[:count_max]
            assert calendar.listing(start, end, count_max) == listed

    @rule(permille=permilles, start=st.integers(-5, HORIZON_S), length_s=st.integers(1, 40))
    def look_for_gaps(self, permille: int, start: int, length_s: int) -> None:
        units = scaled(self.twin.capacity, permille)
        start += self.base
        expected = self.twin.gaps(units, start, start + length_s, self.base)
        for calendar in self.calendars:
            assert calendar.gaps(units, start, start + length_s) == expected

    @rule(
        permille=permilles,
        length_s=st.integers(1, LENGTH_S_MAX),
        not_before=st.integers(-5, HORIZON_S),
        not_after=times | st.just(HORIZON_S + 2 * LENGTH_S_MAX),
        windows=st.none() | st.none() | window_lists(),
    )
    def search(
        self,
        permille: int,
        length_s: int,
        not_before: int,
        not_after: int,
        windows: list[Interval] | None,
    ) -> None:
        units = scaled(self.twin.capacity, permille)
        not_before, not_after = self.base + not_before, self.base + not_after
        if windows is not None:
            windows = [Interval(self.base + start, self.base + end) for start, end in windows]
        expected = self.twin.earliest_fit(units, length_s, not_before, not_after, windows)
        for calendar in self.calendars:
            found = calendar.earliest_fit(units, length_s, not_before, not_after, windows)
            assert found == expected

    @rule(value=nonsense, at=st.integers(0, 1))
    def look_at_nonsense(self, value: Any, at: int) -> None:
        if type(value) is int:
            value = 5.0
        window = [0, 0]
        window[at] = value
        for calendar in self.calendars:
            for call in (calendar.free, calendar.steps, calendar.listing):
                with pytest.raises(InvalidInput):
                    call(*window)
            with pytest.raises(InvalidInput):
                calendar.earliest_fit(1, 1, *window)

    @precondition(lambda self: len(self.others) < 3)
    @rule()
    def fork(self) -> None:
        self.others.append((self.twin.copy(), [calendar.copy() for calendar in self.calendars]))

    @precondition(lambda self: self.others)
    @rule(data=st.data())
    def go_on_with_another(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.others) - 1))
        here = (self.twin, self.calendars)
        self.twin, self.calendars = self.others[index]
        self.others[index] = here

    @precondition(lambda self: self.others)
    @rule(data=st.data())
    def throw_another_away_emptied(self, data: st.DataObject) -> None:
        twin, calendars = self.others.pop(data.draw(st.integers(0, len(self.others) - 1)))
        for calendar in calendars:
            for booking_id in twin.bookings:
                calendar.release(booking_id)
            calendar.check()
            full = booking(50, self.base, self.base + HORIZON_S, calendar.capacity, "held")
            calendar.book(full)

    @invariant()
    def the_whole_state_equals_the_twins(self) -> None:
        effort.steps["calendars of one resource"] += len(self.calendars)
        for calendar in self.calendars:
            calendar.check()
            start, end = self.base - 5, self.base + 2 * HORIZON_S
            assert calendar.listing(start, end) == self.twin.listing(start, end)
            assert calendar.steps(start, end) == self.twin.steps(start, end)
            assert len(calendar) == len(self.twin.bookings)
            for booking_id, known in self.twin.bookings.items():
                assert calendar.get(booking_id) == known


TestCalendarsAgainstTwin = CalendarsAgainstTwin.TestCase
TestCalendarsAgainstTwin.settings = settings(
    max_examples=effort.examples(200), stateful_step_count=25
)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 300)), max_size=60))
@settings(max_examples=50)
def test_equal_sets_of_bookings_give_equal_profiles_in_whatever_order(
    slots: list[tuple[int, int]],
) -> None:
    forward, backward = CapacityCalendar(100), CapacityCalendar(100)
    numbered = list(enumerate(slots, 1))
    for calendar, order in ((forward, numbered), (backward, numbered[::-1])):
        for number, (start, length_s) in order:
            calendar.book(booking(number, start, start + length_s))
        calendar.check()
    assert forward.steps(0, 2000) == backward.steps(0, 2000)
    assert forward.listing(0, 2000) == backward.listing(0, 2000)
