"""What a resource shows as free is exactly what its rules and its calendar would let be booked."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort
from tests.support.bookings import booking

from kalends.calendars import AccessList, AccessRule, Booking, Recurrence, ResourceCalendar
from kalends.calendars import resource as resource_module
from kalends.calendars.recurrence import windows as windows_module
from kalends.core.errors import Conflict, RefusalCode
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo

HOUR = 3600
NOON = int(datetime(2026, 3, 2, 12, 20, tzinfo=UTC).timestamp())
MIDNIGHT = NOON - NOON % 86_400
ANN = Principal(user="ann")

daily = st.builds(
    lambda start, hours: Recurrence("FREQ=DAILY", f"{start:02}:00", hours * HOUR, "UTC"),
    st.integers(0, 23),
    st.integers(4, 23),
)
amounts = st.sampled_from([0, 0, 1, 2])


@st.composite
def resources(draw: st.DrawFn) -> ResourceCalendar:
    capacity = draw(st.integers(1, 3))
    rules = [AccessRule("look", "everyone", ("see",))]
    for number in range(draw(st.integers(1, 3))):
        may = draw(st.sampled_from([("hold",), ("lock",), ("hold", "lock"), ("hold", "lock")]))
        windows = tuple(draw(st.lists(daily, max_size=1)))
        rules.append(AccessRule(f"rule{number}", "user:ann", may, draw(amounts), windows))
    info = ResourceInfo(
        name="site/thing",
        capacity=capacity,
        grain_s=HOUR,
        horizon_s=draw(st.sampled_from([30, 48, 100])) * HOUR,
    )
    resource = ResourceCalendar(info, AccessList(rules), tuple(draw(st.lists(daily, max_size=2))))
    slots = st.tuples(st.integers(0, 70), st.integers(1, 10), st.integers(1, capacity))
    for number, (start, length, units) in enumerate(draw(st.lists(slots, max_size=12)), 1):
        booking = make_booking(number, MIDNIGHT + start * HOUR, length * HOUR, units)
        if resource.free(booking.start, booking.end) >= units:
            resource.book(booking)
    return resource


def make_booking(number: int, start: int, length_s: int, units: int) -> Booking:
    return booking(number, start, start + length_s, units=units, holder="someone")


def bookable(resource: ResourceCalendar, start: int, units: int) -> bool:
    actions = ("hold", "lock") if resource.access.may_ever(ANN, "lock") else ("hold",)
    refused = resource.refusal(ANN, actions, start, start + HOUR, units, NOON)
    return refused is None and resource.free(start, start + HOUR) >= units


@given(resources(), st.integers(0, 60), st.integers(1, 80))
@settings(max_examples=80)
def test_the_free_steps_are_exactly_what_could_be_booked(
    resource: ResourceCalendar, first: int, length: int
) -> None:
    start, end = MIDNIGHT + first * HOUR, MIDNIGHT + (first + length) * HOUR
    steps, until = resource.free_steps(ANN, start, end, NOON, 10_000)
    assert until == end
    shown = {at: units for opens, closes, units in steps for at in range(opens, closes, HOUR)}
    for at in range(start, end, HOUR):
        expected = max((u for u in (1, 2, 3) if bookable(resource, at, u)), default=0)
        assert shown.get(at, 0) == expected
    assert all(start <= opens < closes <= end for opens, closes, _ in steps)
    resource.check()


@given(resources(), st.integers(0, 6))
@settings(max_examples=60)
def test_a_view_that_is_cut_short_says_up_to_where_it_is_complete(
    resource: ResourceCalendar, steps_max: int
) -> None:
    start, end = MIDNIGHT, MIDNIGHT + 80 * HOUR
    every, _ = resource.free_steps(ANN, start, end, NOON, 10_000)
    steps, until = resource.free_steps(ANN, start, end, NOON, steps_max)
    assert steps == every[:steps_max]
    assert until == (every[steps_max][0] if len(every) > steps_max else end)


@given(
    resources(),
    st.integers(-2, 200),
    st.integers(-2, 40),
    st.sampled_from([0, 1, 1800]),
    st.integers(-1, 5),
)
@settings(max_examples=120)
def test_a_refusal_changes_nothing_and_names_one_reason(
    resource: ResourceCalendar, first: int, length: int, off_s: int, units: int
) -> None:
    start = MIDNIGHT + first * HOUR + off_s
    end = start + length * HOUR
    before = resource.calendar.steps(MIDNIGHT, MIDNIGHT + 100 * HOUR)
    refusal = resource.refusal(ANN, ("hold", "lock"), start, end, units, NOON)
    assert resource.calendar.steps(MIDNIGHT, MIDNIGHT + 100 * HOUR) == before
    expected = None
    if end <= start:
        expected = RefusalCode.OFF_GRAIN
    elif start < NOON - NOON % HOUR:
        expected = RefusalCode.PAST
    elif end > NOON + resource.info.horizon_s:
        expected = RefusalCode.BEYOND_HORIZON
    elif off_s:
        expected = RefusalCode.OFF_GRAIN
    elif not 1 <= units <= resource.info.capacity:
        expected = RefusalCode.TOO_MUCH
    if expected is not None:
        assert refusal is not None
        assert refusal.code == expected
        return
    if refusal is not None:
        assert refusal.code in (RefusalCode.NOT_ALLOWED, RefusalCode.CLOSED_HOURS)
        assert refusal.rule
        return
    try:
        resource.book(make_booking(99, start, end - start, units))
    except Conflict:
        assert resource.busy(start, end, units).code == RefusalCode.BUSY
        assert resource.calendar.steps(MIDNIGHT, MIDNIGHT + 100 * HOUR) == before
    resource.check()


HALF = HOUR // 2
SPRING, AUTUMN, WINTER = (
    int(datetime(2026, month, day, 21, 40, tzinfo=UTC).timestamp())
    for month, day in ((3, 28), (10, 24), (1, 6))
)
"""Evenings before the clocks of Berlin go forward, before they go back, and of no such day."""

nightly = st.builds(
    lambda start, length_s, rule: Recurrence(rule, start, length_s, "Europe/Berlin"),
    st.sampled_from(["00:00", "01:30", "02:20", "02:30", "03:00", "08:00", "22:10"]),
    st.sampled_from([1, 2, 3, 5, 10, 24, 30]).map(lambda halves: halves * HALF),
    st.sampled_from(["FREQ=DAILY", "FREQ=DAILY", "FREQ=WEEKLY;BYDAY=SU,MO"]),
)


@st.composite
def changing_clocks(draw: st.DrawFn) -> tuple[ResourceCalendar, int]:
    """A resource with rules on a local clock, some bookings off the grain, and a time for now."""
    wall_s = draw(st.sampled_from([SPRING, AUTUMN, WINTER]))
    capacity = draw(st.sampled_from([1, 3, 3]))
    rules = [AccessRule("look", draw(st.sampled_from(["everyone"] * 5 + ["user:bob"])), ("see",))]
    for number in range(draw(st.integers(1, 3))):
        may = draw(st.sampled_from([("hold",), ("lock",), ("hold", "lock"), ("hold", "lock")]))
        windows = tuple(draw(st.lists(nightly, max_size=2)))
        rules.append(AccessRule(f"rule{number}", "user:ann", may, draw(st.integers(0, 2)), windows))
    info = ResourceInfo(
        name="site/thing",
        capacity=capacity,
        grain_s=HALF,
        horizon_s=draw(st.sampled_from([31, 60, 100])) * HALF + 1,
    )
    resource = ResourceCalendar(info, AccessList(rules), tuple(draw(st.lists(nightly, max_size=2))))
    slots = st.tuples(st.integers(0, 100), st.integers(1, 8), st.sampled_from([0, 0, 0, 60]))
    for number, (start, length, off_s) in enumerate(draw(st.lists(slots, max_size=15)), 1):
        at = wall_s - wall_s % HALF + start * HALF + off_s
        units = draw(st.integers(1, capacity))
        if resource.free(at, at + length * HALF) >= units:
            resource.book(make_booking(number, at, length * HALF, units))
    return resource, wall_s


def fit_by_trying(
    resource: ResourceCalendar, units: int, length_s: int, first: int, last: int, wall_s: int
) -> int | None:
    actions = ("hold", "lock") if resource.access.may_ever(ANN, "lock") else ("hold",)
    for start in range(first, last - length_s + 1, resource.info.grain_s):
        effort.steps["starts on a resource"] += 1
        end = start + length_s
        refused = resource.refusal(ANN, actions, start, end, units, wall_s)
        if refused is None and resource.free(start, end) >= units:
            return start
    return None


@pytest.mark.parametrize(
    ("reach_s", "chunk_s"),
    [(HALF, 5 * HOUR), (HALF + 60, HALF), (resource_module.REACH_S, windows_module.CHUNK_S)],
)
def test_the_earliest_fit_is_the_first_start_that_could_be_booked(
    reach_s: int, chunk_s: int
) -> None:
    @given(
        changing_clocks(),
        st.integers(1, 4),
        st.sampled_from([1, 1, 2, 3, 8, 20]),
        st.integers(-3, 40),
        st.integers(20, 110),
    )
    @settings(max_examples=effort.examples(100))
    def law(
        known: tuple[ResourceCalendar, int], units: int, length: int, first: int, width: int
    ) -> None:
        resource, wall_s = known
        not_before = wall_s - wall_s % HALF + first * HALF
        asked = units, length * HALF, not_before, not_before + width * HALF, wall_s
        assert resource.earliest_fit(ANN, *asked) == fit_by_trying(resource, *asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows_module, "CHUNK_S", chunk_s)
        patch.setattr(resource_module, "CHUNK_S", chunk_s)
        patch.setattr(resource_module, "REACH_S", reach_s)
        law()
