"""When two recurring series are open at once: examples worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kalends.calendars import Recurrence
from kalends.calendars.recurrence.clashes import first_clash, first_clash_of_any, is_ever_open
from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval

BERLIN = "Europe/Berlin"
LOS_ANGELES = "America/Los_Angeles"
HOUR = 3600
DAY = 24 * HOUR


def utc(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp())  # type: ignore[misc, arg-type]  # int parts


def daily(start: str, hours: float, zone: str = BERLIN, **bounds: str) -> Recurrence:
    return Recurrence("FREQ=DAILY", start, int(hours * HOUR), zone, **bounds)


def clash(one: Recurrence, other: Recurrence, not_before: int = 0) -> Interval | None:
    """The first clash, which is the same from both sides."""
    found = first_clash(one, other, not_before)
    assert first_clash(other, one, not_before) == found
    return found


def test_windows_that_touch_do_not_clash_and_one_second_more_does() -> None:
    morning, noon = daily("08:00", 2), daily("10:00", 2)
    assert clash(morning, noon) is None
    longer = Recurrence("FREQ=DAILY", "08:00", 2 * HOUR + 1, BERLIN)
    assert clash(longer, noon, utc(2026, 1, 1)) == (utc(2026, 1, 1, 9), utc(2026, 1, 1, 9, 0, 1))


def test_a_clash_that_has_begun_is_told_from_the_time_asked_for() -> None:
    one, other = daily("08:00", 10, "UTC"), daily("09:00", 4, "UTC")
    asked = utc(2026, 5, 4, 10, 30)
    assert clash(one, other, asked) == (asked, utc(2026, 5, 4, 13))
    assert clash(one, other, utc(2026, 5, 4, 13)) == (utc(2026, 5, 5, 9), utc(2026, 5, 5, 13))


def test_coprime_intervals_meet_in_the_only_year_in_which_they_do() -> None:
    days = Recurrence("FREQ=DAILY;INTERVAL=997", "08:00", HOUR, "UTC", first="2026-01-01")
    weeks = Recurrence("FREQ=WEEKLY;INTERVAL=7", "08:00", HOUR, "UTC", first="2026-01-02")
    # 997 n = 1 + 49 m, first for n = 26.
    meets = utc(2026, 1, 1) + 997 * 26 * DAY + 8 * HOUR
    assert (997 * 26 - 1) % 49 == 0
    assert clash(days, weeks) == (meets, meets + HOUR)


def test_intervals_with_a_common_factor_and_days_apart_never_meet() -> None:
    one = Recurrence("FREQ=DAILY;INTERVAL=6", "08:00", HOUR, "UTC", first="2026-01-01")
    other = Recurrence("FREQ=DAILY;INTERVAL=4", "08:00", HOUR, "UTC", first="2026-01-02")
    assert clash(one, other) is None
    longer = Recurrence("FREQ=DAILY;INTERVAL=4", "08:00", DAY + 1, "UTC", first="2026-01-02")
    assert clash(one, longer) == (utc(2026, 1, 7, 8), utc(2026, 1, 7, 8, 0, 1))


def test_leap_days_meet_a_weekday_when_they_fall_on_it_and_no_thirtieth() -> None:
    leap = Recurrence("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "08:00", HOUR, "UTC")
    sundays = Recurrence("FREQ=WEEKLY;BYDAY=SU", "08:00", HOUR, "UTC")
    never = Recurrence("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "08:00", HOUR, "UTC")
    assert clash(leap, sundays, utc(2026, 1, 1)) == (utc(2032, 2, 29, 8), utc(2032, 2, 29, 9))
    assert clash(leap, sundays, utc(2032, 3, 1)) == (utc(2060, 2, 29, 8), utc(2060, 2, 29, 9))
    assert clash(never, sundays) is None


def test_every_fourth_year_counted_from_a_common_year_never_meets_a_leap_day() -> None:
    leap = Recurrence("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "08:00", HOUR, "UTC")
    fourth = Recurrence("FREQ=YEARLY;INTERVAL=4;BYYEARDAY=60", "08:00", HOUR, "UTC", "2026-01-01")
    other = Recurrence("FREQ=YEARLY;INTERVAL=4;BYYEARDAY=60", "08:00", HOUR, "UTC", "2024-01-01")
    assert clash(leap, fourth) is None
    assert clash(leap, other) == (utc(2024, 2, 29, 8), utc(2024, 2, 29, 9))


def test_positions_meet_only_where_the_last_workday_is_the_last_day() -> None:
    workday = Recurrence("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "08:00", HOUR, "UTC")
    sunday = Recurrence("FREQ=MONTHLY;BYDAY=SU;BYMONTHDAY=-1", "08:00", HOUR, "UTC")
    last = Recurrence("FREQ=MONTHLY;BYMONTHDAY=-1", "08:00", HOUR, "UTC")
    assert clash(workday, sunday) is None
    # 31 January 2026 is a Saturday, 28 February too; 31 March is a Tuesday.
    assert clash(workday, last, utc(2026, 1, 1)) == (utc(2026, 3, 31, 8), utc(2026, 3, 31, 9))


def test_hours_of_two_zones_meet_only_in_the_weeks_between_their_clock_changes() -> None:
    berlin, los_angeles = daily("08:00", 9), daily("08:00", 1, LOS_ANGELES)
    # Nine hours apart, but eight from 8 to 29 March 2026.
    assert clash(berlin, los_angeles, utc(2026, 1, 1)) == (utc(2026, 3, 8, 15), utc(2026, 3, 8, 16))
    assert clash(berlin, los_angeles, utc(2026, 3, 29)) == (
        utc(2026, 10, 25, 15), utc(2026, 10, 25, 16),
    )  # fmt: skip


def test_a_start_while_the_other_clock_stands_is_found_on_the_one_night_a_year() -> None:
    # Berlin shows 02:00 to 03:00 twice on 25 October 2026: its hour from 02:00 lasts until 02:00 UTC.
    once = daily("02:00", 1, first="2026-10-25", last="2026-10-25")
    second_hour = daily("01:30", 0.5, "UTC")
    assert clash(once, second_hour) == (utc(2026, 10, 25, 1, 30), utc(2026, 10, 25, 2))


def test_a_start_is_not_reached_while_its_own_clock_stands() -> None:
    # 03:30 in Berlin is 02:30 UTC on that day, after its clock has gone through 02:00 to 03:00 again.
    berlin = daily("03:30", 1, first="2026-10-25", last="2026-10-25")
    day = {"first": "2026-10-25", "last": "2026-10-25"}
    assert clash(berlin, daily("01:30", 1, "UTC", **day)) is None
    found = clash(berlin, daily("01:30", 2, "UTC", **day))
    assert found == (utc(2026, 10, 25, 2, 30), utc(2026, 10, 25, 3, 30))


def test_a_window_of_the_local_day_before_is_found_in_its_last_second() -> None:
    evening, morning = daily("20:00", 3, LOS_ANGELES), daily("04:00", 3, "UTC")
    asked = utc(2026, 1, 5, 7) - 1
    assert clash(evening, morning, asked) == (asked, asked + 1)


def test_a_fifty_third_week_ends_on_a_first_of_january_only_after_the_years_that_have_one() -> None:
    last_week = Recurrence("FREQ=YEARLY;BYWEEKNO=53;BYDAY=SA", "08:00", HOUR, "UTC")
    first_day = Recurrence("FREQ=YEARLY;BYYEARDAY=1", "08:00", HOUR, "UTC")
    # 2005 began on a Saturday after a leap year, 2011 after a common one, whose weeks were 52.
    assert clash(last_week, first_day, utc(2005, 1, 1)) == (utc(2005, 1, 1, 8), utc(2005, 1, 1, 9))
    assert clash(last_week, first_day, utc(2005, 1, 2)) == (utc(2033, 1, 1, 8), utc(2033, 1, 1, 9))


def test_windows_in_the_skipped_hour_do_not_clash() -> None:
    spring = {"first": "2026-03-29", "last": "2026-03-29"}
    assert clash(daily("02:00", 1, **spring), daily("02:00", 1, **spring)) is None
    assert clash(daily("02:00", 1, **spring), daily("00:00", 24, "UTC")) is None
    # Two windows that start in it begin together when the clock jumps over it.
    found = clash(daily("02:10", 2, **spring), daily("02:50", 1, **spring))
    assert found == (utc(2026, 3, 29, 1), utc(2026, 3, 29, 1, 50))


def test_half_an_hour_of_daylight_saving_is_half_an_hour() -> None:
    # Lord Howe is at +11:00 in its summer and +10:30 in winter.
    lord_howe = daily("08:00", 1, "Australia/Lord_Howe")
    winter_only = daily("21:45", 0.5, "UTC")
    assert clash(lord_howe, winter_only, utc(2026, 1, 1)) == (
        utc(2026, 1, 1, 21, 45), utc(2026, 1, 1, 22),
    )  # fmt: skip
    assert clash(lord_howe, daily("22:00", 0.5, "UTC"), utc(2026, 1, 1)) == (
        utc(2026, 4, 4, 22), utc(2026, 4, 4, 22, 30),
    )  # fmt: skip


def test_a_day_that_was_skipped_has_no_windows_to_clash_with() -> None:
    skipped = daily("08:00", 1, "Pacific/Apia", first="2011-12-30", last="2011-12-30")
    assert clash(skipped, daily("00:00", 24, "UTC")) is None
    assert clash(skipped, daily("00:00", 24, "Pacific/Apia")) is None


def test_windows_longer_than_their_period_overlap_and_the_longest_counts() -> None:
    long = daily("00:00", 60, "UTC")
    noon = daily("12:00", 200, "UTC", first="2026-05-04", last="2026-05-04")
    assert clash(long, noon) == (utc(2026, 5, 4, 12), utc(2026, 5, 6, 12))


def test_windows_of_a_year_reach_those_of_the_next() -> None:
    year = Recurrence(
        "FREQ=YEARLY;INTERVAL=2;BYYEARDAY=-1", "23:00", 366 * DAY, "UTC", "2025-01-01"
    )
    one_hour = Recurrence("FREQ=YEARLY;BYYEARDAY=-1", "22:30", HOUR, "UTC", "2026-06-01")
    assert clash(year, one_hour) == (utc(2026, 12, 31, 22, 30), utc(2026, 12, 31, 23, 30))


@pytest.mark.parametrize(
    ("rule", "bounds"),
    [
        ("FREQ=DAILY;UNTIL=20260131", {"first": "2026-01-01"}),
        ("FREQ=DAILY;COUNT=31", {"first": "2026-01-01"}),
        ("FREQ=DAILY", {"first": "2026-01-01", "last": "2026-01-31"}),
    ],
)
def test_series_that_ended_do_not_clash_with_later_ones(rule: str, bounds: dict[str, str]) -> None:
    ended = Recurrence(rule, "08:00", HOUR, "UTC", **bounds)
    assert clash(ended, daily("08:00", 1, "UTC", first="2026-02-01")) is None
    last = clash(ended, daily("08:00", 1, "UTC", first="2026-01-31"))
    assert last == (utc(2026, 1, 31, 8), utc(2026, 1, 31, 9))
    assert clash(ended, daily("08:00", 1, "UTC"), utc(2026, 1, 31, 9)) is None


def test_a_rule_that_ends_before_it_begins_never_clashes() -> None:
    backwards = Recurrence("FREQ=DAILY;UNTIL=20250101", "08:00", HOUR, "UTC", first="2026-01-01")
    assert clash(backwards, daily("00:00", 24, "UTC")) is None


def test_the_first_and_the_last_second_that_can_be_said_are_looked_at() -> None:
    evening, always = daily("23:00", 2, "UTC"), daily("00:00", 24, "UTC")
    assert clash(evening, always) == (0, HOUR)
    last = limits.TIME_S_MAX
    assert clash(evening, always, last - 1) == (last - 1, last)
    assert clash(evening, always, last) is None
    assert clash(evening, daily("00:00", 24, "UTC", first="2999-12-31")) == (
        last - DAY,
        last - 23 * HOUR,
    )


@pytest.mark.parametrize("not_before", [-1, 1.0, True, None, float("nan"), 10**30])
def test_a_time_that_cannot_be_is_refused(not_before: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        first_clash(daily("08:00", 1), daily("08:00", 1), not_before)
    assert caught.value.where == "not_before"


def test_of_several_series_the_earliest_clash_counts_and_of_equals_the_longest() -> None:
    noon = daily("12:00", 1, "UTC", first="2026-01-01")
    early = daily("12:30", 1, "UTC", first="2026-01-01")
    later = daily("12:00", 1, "UTC", first="2026-02-01")
    wide = daily("12:30", 2, "UTC", first="2026-01-01")
    hours = daily("12:00", 6, "UTC")
    assert first_clash_of_any([later, noon], [hours]) == (utc(2026, 1, 1, 12), utc(2026, 1, 1, 13))
    found = first_clash_of_any([hours], [later, early, wide])
    assert found == (utc(2026, 1, 1, 12, 30), utc(2026, 1, 1, 14, 30))
    assert first_clash_of_any([], [hours]) is None
    assert first_clash_of_any([noon], [daily("18:00", 1, "UTC")]) is None


def test_hours_that_are_never_open_are_told() -> None:
    thirtieth = Recurrence("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "08:00", HOUR, BERLIN)
    skipped = daily("02:00", 1, first="2026-03-29", last="2026-03-29")
    assert not is_ever_open([])
    assert not is_ever_open([thirtieth, skipped])
    assert is_ever_open([thirtieth, skipped, daily("02:00", 1)])
