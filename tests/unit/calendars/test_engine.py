"""What the calendars promise, case by case; the laws are in the property tests."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.calendars import Booking, Calendar, CapacityCalendar, UnitCalendar, new_calendar
from kalends.core import limits
from kalends.core.errors import Conflict, InvalidInput, NotFound
from kalends.core.intervals import Interval


def booking(number: int, start: int, end: int, **changes: Any) -> Booking:
    fields: dict[str, Any] = {
        "id": number, "start": start, "end": end, "units": 1, "state": "held",
        "holder": "ann", "reservation": "r",
    }  # fmt: skip
    return Booking(**{**fields, **changes})


@pytest.fixture(params=[UnitCalendar, lambda: CapacityCalendar(1), lambda: CapacityCalendar(3)])
def calendar(request: pytest.FixtureRequest) -> Calendar:
    built: Calendar = request.param()
    return built


def test_a_capacity_of_one_gets_the_unit_calendar() -> None:
    assert isinstance(new_calendar(1), UnitCalendar)
    assert isinstance(new_calendar(2), CapacityCalendar)


@pytest.mark.parametrize("capacity", [0, -1, 1.0, True, float("nan"), "3", None, 10**12])
def test_a_capacity_that_cannot_be_is_refused(capacity: Any) -> None:
    with pytest.raises(InvalidInput):
        new_calendar(capacity)


def test_back_to_back_bookings_touch_and_do_not_clash(calendar: Calendar) -> None:
    full = {"units": calendar.capacity}
    calendar.book(booking(1, 100, 200, **full))
    calendar.book(booking(2, 200, 300, **full))
    calendar.book(booking(3, 0, 100, **full))
    assert calendar.free(0, 300) == 0
    assert calendar.free(300, 400) == calendar.capacity
    assert calendar.steps(-50, 400) == [
        (-50, 0, calendar.capacity),
        (0, 300, 0),
        (300, 400, calendar.capacity),
    ]
    calendar.check()


@pytest.mark.parametrize(("start", "end"), [(100, 200), (199, 300), (0, 101), (120, 130), (0, 999)])
def test_one_second_of_overlap_is_a_conflict_and_changes_nothing(
    calendar: Calendar, start: int, end: int
) -> None:
    calendar.book(booking(1, 100, 200, units=calendar.capacity))
    before = calendar.steps(-10, 1000)
    with pytest.raises(Conflict):
        calendar.book(booking(2, start, end))
    assert calendar.steps(-10, 1000) == before
    assert len(calendar) == 1
    with pytest.raises(NotFound):
        calendar.get(2)
    calendar.check()


def test_an_id_is_booked_once_and_free_again_after_release(calendar: Calendar) -> None:
    calendar.book(booking(1, 0, 10))
    with pytest.raises(Conflict):
        calendar.book(booking(1, 50, 60))
    assert calendar.release(1) == booking(1, 0, 10)
    calendar.book(booking(1, 50, 60))
    assert calendar.listing(0, 100) == [booking(1, 50, 60)]


@pytest.mark.parametrize(
    "changes",
    [
        {"end": 0}, {"end": -1}, {"start": -1}, {"end": limits.TIME_S_MAX + 1}, {"end": 10**40},
        {"start": 0.0}, {"end": float("nan")}, {"end": float("inf")}, {"start": False},
        {"units": 0}, {"units": -1}, {"units": 99}, {"units": 1.0}, {"units": True}, {"units": None},
        {"id": "1"}, {"id": True}, {"id": None}, {"holder": None}, {"reservation": 7},
        {"state": "free"}, {"state": None}, {"state": ["held"]},
    ],
)  # fmt: skip
def test_a_malformed_booking_is_refused_and_changes_nothing(
    calendar: Calendar, changes: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        calendar.book(booking(**{"number": 1, "start": 0, "end": 10, **changes}))
    assert len(calendar) == 0
    assert calendar.steps(0, 20) == [(0, 20, calendar.capacity)]
    calendar.check()


def test_changing_the_state_keeps_the_slot_and_shows_everywhere(calendar: Calendar) -> None:
    calendar.book(booking(1, 0, 10))
    changed = calendar.change_state(1, "locked")
    assert changed == booking(1, 0, 10, state="locked")
    assert calendar.get(1) == changed
    assert calendar.listing(0, 10) == [changed]
    assert calendar.copy().listing(0, 10) == [changed]
    assert calendar.release(1) == changed


def test_a_copy_and_its_original_go_separate_ways(calendar: Calendar) -> None:
    calendar.book(booking(1, 0, 10, units=calendar.capacity))
    copy = calendar.copy()
    copy.release(1)
    copy.book(booking(2, 0, 10))
    assert calendar.free(0, 10) == 0
    for each in (calendar, copy):
        each.check()


def test_the_earliest_fit_lies_within_one_window(calendar: Calendar) -> None:
    calendar.book(booking(1, 120, 130, units=calendar.capacity))
    windows = [Interval(0, 15), Interval(100, 140), Interval(200, 300)]
    assert calendar.earliest_fit(1, 15, 0, 1000, windows) == 0
    assert calendar.earliest_fit(1, 15, 1, 1000, windows) == 100
    assert calendar.earliest_fit(1, 20, 1, 1000, windows) == 100
    assert calendar.earliest_fit(1, 21, 1, 1000, windows) == 200
    assert calendar.earliest_fit(1, 21, 1, 220, windows) is None
    assert calendar.earliest_fit(1, 21, 1, 221, windows) == 200
    assert calendar.earliest_fit(1, 101, 0, 1000, windows) is None
    assert calendar.earliest_fit(1, 121, 0, 1000) == 130
    assert calendar.earliest_fit(1, 5, 0, 1000, []) is None
    assert calendar.earliest_fit(calendar.capacity + 1, 5, 0, 1000) is None


@pytest.mark.parametrize(
    "arguments",
    [(0, 5, 0, 10), (1, 0, 0, 10), (1, -5, 0, 10), (1.0, 5, 0, 10), (1, 5, float("nan"), 10),
     (True, 5, 0, 10), (1, 5, 0, None)],
)  # fmt: skip
def test_a_search_for_nonsense_is_refused(calendar: Calendar, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidInput):
        calendar.earliest_fit(*arguments)


def test_windows_beyond_all_time_are_answered(calendar: Calendar) -> None:
    calendar.book(booking(1, 0, 10, units=calendar.capacity))
    far = 10**40
    assert calendar.earliest_fit(1, far, -far + 5, 9 * far) == 10
    assert calendar.earliest_fit(1, far, 9 - far, 9 * far) == 10
    assert calendar.earliest_fit(1, far, -far, 9 * far) == -far
    assert calendar.earliest_fit(1, far, far, 9 * far) == far
    assert calendar.free(-far, far) == 0
    assert calendar.steps(-far, far)[1] == (0, 10, 0)
    assert calendar.gaps(1, -far, far) == [Interval(10, limits.TIME_S_MAX)]
    assert calendar.gaps(1, far, 2 * far) == []
    assert calendar.listing(-far, far) == [booking(1, 0, 10, units=calendar.capacity)]


def test_a_failed_load_takes_nothing_and_says_what_the_first_refusal_was(
    calendar: Calendar,
) -> None:
    full = {"units": calendar.capacity}
    calendar.book(booking(1, 0, 10, **full))
    before = calendar.steps(0, 100)
    for new, error in (
        ([booking(2, 20, 30), booking(3, 5, 30), booking(4, 9, 9)], Conflict),
        ([booking(2, 20, 30), booking(4, 9, 9), booking(3, 5, 30)], InvalidInput),
        ([booking(2, 20, 30), booking(2, 40, 50)], Conflict),
        ([booking(2, 20, 30), booking(1, 40, 50)], Conflict),
    ):
        with pytest.raises(error):
            calendar.load(iter(new))
        assert calendar.steps(0, 100) == before
        assert len(calendar) == 1
        calendar.check()
    calendar.load([])
    calendar.load(each for each in [booking(2, 20, 30), booking(3, 10, 20)])
    assert [each.id for each in calendar.listing(0, 100)] == [1, 3, 2]
    calendar.check()


def test_listings_find_long_bookings_that_began_long_ago() -> None:
    calendar = CapacityCalendar(10)
    calendar.book(booking(1, 0, 1_000_000))
    for number in range(2, 100):
        calendar.book(booking(number, number * 1000, number * 1000 + 10))
    assert [each.id for each in calendar.listing(50_000, 50_001)] == [1, 50]
    assert [each.id for each in calendar.listing(999_999, 1_000_005)] == [1]
    assert calendar.listing(1_000_000, 1_000_005) == []


def test_check_notices_amounts_that_are_not_the_sum_of_the_bookings() -> None:
    unit, capacity = UnitCalendar(), CapacityCalendar(3)
    for calendar in (unit, capacity):
        calendar.book(booking(1, 0, 10))
    capacity._profile.add(3, 5, -1)
    unit._taken.remove(0)
    unit._taken.add(0, 11, 1)
    for calendar in (unit, capacity):
        with pytest.raises(AssertionError):
            calendar.check()
