"""What a resource shows as free is exactly what its rules and its calendar would let be booked."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from kalends.calendars import AccessList, Booking, Recurrence, ResourceCalendar, Rule
from kalends.core.errors import Conflict, RefusalCode
from kalends.core.messages import Principal
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
    rules = [Rule("look", "everyone", ("see",))]
    for number in range(draw(st.integers(1, 3))):
        may = draw(st.sampled_from([("hold",), ("lock",), ("hold", "lock"), ("hold", "lock")]))
        windows = tuple(draw(st.lists(daily, max_size=1)))
        rules.append(Rule(f"rule{number}", "user:ann", may, draw(amounts), windows))
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
    return Booking(
        id=number,
        start=start,
        end=start + length_s,
        units=units,
        state="held",
        holder="someone",
        reservation="r",
        expires_ms=None,
    )


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
