"""The earliest time at which a principal could book, over years, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.bookings import booking

from kalends.calendars import (
    AccessList,
    AccessRule,
    Recurrence,
    ResourceCalendar,
    open_access,
)
from kalends.calendars.resource import REACH_S
from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo

HOUR = 3600
NOW = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp())
ANN = Principal(user="ann")
WEEKDAYS = Recurrence("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "08:00", 10 * HOUR, "UTC")


def resource(
    *hours: Recurrence, access: AccessList | None = None, grain_s: int = HOUR
) -> ResourceCalendar:
    info = ResourceInfo(name="site/thing", grain_s=grain_s, horizon_s=limits.WINDOW_S_MAX)
    return ResourceCalendar(info, open_access() if access is None else access, hours)


def take(thing: ResourceCalendar, start: int, end: int) -> None:
    thing.book(booking(start, start, end, state="locked", holder="bob"))


def search(thing: ResourceCalendar, length_s: int = HOUR, first: int = NOW) -> int | None:
    last = (NOW + limits.WINDOW_S_MAX) // HOUR * HOUR
    return thing.earliest_fit(ANN, 1, length_s, first, last, NOW)


def test_an_early_answer_expands_only_what_lies_before_it() -> None:
    thing = resource(WEEKDAYS)
    assert search(thing) == NOW + 8 * HOUR
    assert thing._hours is not None
    assert len(thing._hours._chunks) <= 2


def test_rules_are_not_expanded_where_nothing_is_free() -> None:
    thing = resource(WEEKDAYS)
    busy_until = int(datetime(2030, 6, 8, 12, tzinfo=UTC).timestamp())
    take(thing, NOW, busy_until)
    assert search(thing) == int(datetime(2030, 6, 10, 8, tzinfo=UTC).timestamp())
    assert thing._hours is not None
    assert len(thing._hours._chunks) <= 2


def test_an_hour_that_opens_once_in_years_is_found() -> None:
    leap_day = Recurrence("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "09:00", HOUR, "UTC")
    thing = resource(leap_day)
    assert search(thing) == int(datetime(2028, 2, 29, 9, tzinfo=UTC).timestamp())
    take(thing, NOW, NOW + 3 * 366 * 24 * HOUR)
    assert search(thing) == int(datetime(2032, 2, 29, 9, tzinfo=UTC).timestamp())
    assert search(thing, 2 * HOUR) is None


def test_a_slot_may_be_longer_than_the_piece_of_time_that_rules_are_expanded_for() -> None:
    always = Recurrence("FREQ=DAILY", "00:00", 24 * HOUR, "UTC")
    thing = resource(always)
    take(thing, NOW + HOUR, NOW + 2 * HOUR)
    assert search(thing, 360 * 24 * HOUR) == NOW + 2 * HOUR
    assert search(thing, 3_660 * 24 * HOUR) is None


def test_a_slot_across_the_end_of_the_first_look_is_found() -> None:
    opens = NOW + REACH_S + 12 * HOUR
    first = datetime.fromtimestamp(opens, UTC).date()
    thing = resource(Recurrence("FREQ=DAILY", "12:00", 24 * HOUR, "UTC", first))
    assert search(thing, 24 * HOUR) == opens


def test_who_may_not_see_the_resource_finds_nothing() -> None:
    hidden = resource(access=AccessList([AccessRule("r", "user:bob", ("see", "hold", "lock"))]))
    assert search(hidden) is None
    blind = resource(access=AccessList([AccessRule("r", "everyone", ("hold", "lock"))]))
    assert search(blind) is None


def test_many_bookings_off_the_grain_do_not_hide_the_first_start_on_it() -> None:
    thing = resource(grain_s=HOUR)
    for day in range(300):
        take(thing, NOW + day * 24 * HOUR + 1, NOW + day * 24 * HOUR + 22 * HOUR + 1)
    assert search(thing, 2 * HOUR) == NOW + (299 * 24 + 23) * HOUR
    assert search(thing, HOUR) == NOW + 23 * HOUR


@pytest.mark.parametrize("field", ["units", "length_s", "not_before", "not_after", "wall_s"])
@pytest.mark.parametrize("value", [None, True, 1.0, float("nan"), "1"])
def test_what_is_no_whole_number_is_named(field: str, value: Any) -> None:
    asked = {"units": 1, "length_s": HOUR, "not_before": 0, "not_after": HOUR, "wall_s": 0}
    with pytest.raises(InvalidInput) as caught:
        resource().earliest_fit(ANN, **{**asked, field: value})
    assert caught.value.where == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("units", 0),
        ("length_s", 0),
        ("length_s", -HOUR),
        ("length_s", 60),
        ("not_before", 1),
        ("not_after", 10**40 + 1),
    ],
)
def test_what_is_off_the_grain_or_empty_is_named(field: str, value: int) -> None:
    asked = {"units": 1, "length_s": HOUR, "not_before": 0, "not_after": HOUR, "wall_s": 0}
    with pytest.raises(InvalidInput) as caught:
        resource().earliest_fit(ANN, **{**asked, field: value})
    assert caught.value.where == field


def test_huge_numbers_find_nothing_or_end_at_the_horizon() -> None:
    huge = 10**40 // HOUR * HOUR
    thing = resource()
    assert thing.earliest_fit(ANN, huge, HOUR, 0, huge, NOW) is None
    assert thing.earliest_fit(ANN, 1, huge, 0, huge, NOW) is None
    assert thing.earliest_fit(ANN, 1, HOUR, huge, huge, NOW) is None
    assert thing.earliest_fit(ANN, 1, HOUR, -huge, huge, NOW) == NOW
    assert thing.earliest_fit(ANN, 1, HOUR, 0, HOUR, -huge) is None
