"""Recurrences: RFC 5545 examples, both clock changes, words, and what is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from kalends.calendars import Recurrence, Windows
from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval
from kalends.core.repeat import parse_repeat

BERLIN = "Europe/Berlin"
LOS_ANGELES = "America/Los_Angeles"
HOUR = 3600


def utc(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp())  # type: ignore[misc, arg-type]  # int parts


def local_days(text: str, first: date, last: date) -> list[str]:
    moments = parse_repeat(text).occurrences(first, time(9), first, last)
    return [f"{moment:%Y-%m-%d}" for moment in moments]


@pytest.mark.parametrize(
    ("rule", "first", "days"),
    [
        # RFC 5545 section 3.8.5.3, its examples with their dates.
        ("FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=TU,TH", "1997-09-02", "09-02 09-04 09-16 09-18 09-30"),
        ("FREQ=MONTHLY;BYDAY=1FR", "1997-09-05", "09-05 10-03 11-07 12-05"),
        ("FREQ=MONTHLY;BYDAY=-2MO", "1997-09-22", "09-22 10-20 11-17 12-22"),
        ("FREQ=MONTHLY;BYMONTHDAY=-3", "1997-09-28", "09-28 10-29 11-28 12-29"),
        ("FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "1998-02-13", "02-13 03-13 11-13"),
        ("FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13", "1997-09-13", "09-13 10-11 11-08 12-13"),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", "1997-09-29", "09-29 10-30 11-27 12-30"),
        ("FREQ=MONTHLY;BYDAY=TU,WE,TH;BYSETPOS=3", "1997-09-04", "09-04 10-07 11-06 12-04"),
        ("FREQ=YEARLY;BYDAY=20MO", "1997-05-19", "05-19"),
        ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "1997-05-12", "05-12"),
        ("FREQ=YEARLY;BYMONTH=6,7", "1997-06-10", "06-10 07-10"),
        ("FREQ=YEARLY;BYYEARDAY=100,200", "1997-04-10", "04-10 07-19"),
        ("FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8", "1996-11-05", "11-05"),
        ("FREQ=DAILY;INTERVAL=10", "1997-11-27", "11-27 12-07 12-17 12-27"),
        ("FREQ=WEEKLY", "1997-12-02", "12-02 12-09 12-16 12-23 12-30"),
    ],
)  # fmt: skip
def test_rules_name_the_days_of_the_standards_examples(rule: str, first: str, days: str) -> None:
    begin = date.fromisoformat(first)
    end = date(begin.year, 9, 30) if days.endswith("09-30") else date(begin.year, 12, 31)
    assert local_days(rule, begin, end) == [f"{begin.year}-{day}" for day in days.split()]


def test_plain_and_numbered_weekdays_of_one_rule_are_either_or() -> None:
    days = local_days("FREQ=MONTHLY;BYDAY=WE,2MO", date(2026, 6, 1), date(2026, 6, 30))
    assert days == ["2026-06-03", "2026-06-08", "2026-06-10", "2026-06-17", "2026-06-24"]


def test_a_rule_that_never_matches_has_no_windows_and_ends() -> None:
    never = Recurrence("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "08:00", HOUR, BERLIN)
    assert Windows([never]).between(0, limits.WINDOW_S_MAX) == []


@pytest.mark.parametrize(
    ("zone", "day", "opens", "closes"),
    [
        (BERLIN, "2026-03-28", utc(2026, 3, 28, 7), utc(2026, 3, 28, 17)),
        (BERLIN, "2026-03-29", utc(2026, 3, 29, 6), utc(2026, 3, 29, 16)),
        (BERLIN, "2026-10-24", utc(2026, 10, 24, 6), utc(2026, 10, 24, 16)),
        (BERLIN, "2026-10-25", utc(2026, 10, 25, 7), utc(2026, 10, 25, 17)),
        (LOS_ANGELES, "2026-03-07", utc(2026, 3, 7, 16), utc(2026, 3, 8, 2)),
        (LOS_ANGELES, "2026-03-08", utc(2026, 3, 8, 15), utc(2026, 3, 9, 1)),
        (LOS_ANGELES, "2026-10-31", utc(2026, 10, 31, 15), utc(2026, 11, 1, 1)),
        (LOS_ANGELES, "2026-11-01", utc(2026, 11, 1, 16), utc(2026, 11, 2, 2)),
    ],
)
def test_eight_for_ten_hours_is_eight_to_eighteen_on_the_wall_before_and_after_both_changes(
    zone: str, day: str, opens: int, closes: int
) -> None:
    daily = Recurrence("FREQ=DAILY", "08:00", 10 * HOUR, zone, first=day, last=day)
    assert daily.windows(opens - 86_400, closes + 86_400) == [Interval(opens, closes)]


@pytest.mark.parametrize(
    ("zone", "spring", "autumn"),
    [(BERLIN, "2026-03-29", "2026-10-25"), (LOS_ANGELES, "2026-03-08", "2026-11-01")],
)
def test_a_whole_local_day_has_23_hours_in_spring_and_25_in_autumn(
    zone: str, spring: str, autumn: str
) -> None:
    for day, hours in ((spring, 23), (autumn, 25)):
        whole = Recurrence("FREQ=DAILY", "00:00", 24 * HOUR, zone, first=day, last=day)
        (window,) = whole.windows(utc(2026, 1, 1), utc(2026, 12, 31))
        assert window.length_s == hours * HOUR


@pytest.mark.parametrize(
    ("start", "length_s", "expected"),
    [
        # 02:00 to 03:00 is skipped in Berlin on 29 March 2026; the clocks change at 01:00 UTC.
        ("02:30", HOUR, [Interval(utc(2026, 3, 29, 1), utc(2026, 3, 29, 1, 30))]),
        ("02:00", HOUR, []),
        ("01:30", HOUR, [Interval(utc(2026, 3, 29, 0, 30), utc(2026, 3, 29, 1))]),
    ],
)
def test_a_skipped_local_time_is_the_instant_of_the_change(
    start: str, length_s: int, expected: list[Interval]
) -> None:
    once = Recurrence("FREQ=DAILY", start, length_s, BERLIN, "2026-03-29", "2026-03-29")
    assert once.windows(utc(2026, 3, 1), utc(2026, 4, 1)) == expected


@pytest.mark.parametrize(
    ("start", "length_s", "expected"),
    [
        # 01:00 to 02:00 is shown twice in Los Angeles on 1 November 2026; the first is 08:00 UTC.
        ("01:30", HOUR // 2, Interval(utc(2026, 11, 1, 8, 30), utc(2026, 11, 1, 10))),
        ("01:00", HOUR // 2, Interval(utc(2026, 11, 1, 8), utc(2026, 11, 1, 8, 30))),
        ("00:00", 90 * 60, Interval(utc(2026, 11, 1, 7), utc(2026, 11, 1, 8, 30))),
    ],
)
def test_a_repeated_local_time_is_the_first_of_the_two(
    start: str, length_s: int, expected: Interval
) -> None:
    once = Recurrence("FREQ=DAILY", start, length_s, LOS_ANGELES, "2026-11-01", "2026-11-01")
    assert once.windows(utc(2026, 10, 1), utc(2026, 12, 1)) == [expected]


def test_count_until_first_and_last_bound_the_windows_inclusively() -> None:
    reach = (utc(2026, 1, 1), utc(2026, 12, 31))
    berlin = ZoneInfo(BERLIN)

    def days(rule: str, **bounds: str) -> list[int]:
        windows = Recurrence(rule, "08:00", HOUR, BERLIN, **bounds).windows(*reach)
        return [
            datetime.fromtimestamp(window.start, berlin).timetuple().tm_yday for window in windows
        ]

    assert days("FREQ=DAILY;COUNT=3", first="2026-02-01") == [32, 33, 34]
    assert days("FREQ=DAILY;UNTIL=20260203", first="2026-02-01") == [32, 33, 34]
    assert days("FREQ=DAILY;UNTIL=20260203T070000Z", first="2026-02-01") == [32, 33, 34]
    assert days("FREQ=DAILY;UNTIL=20260203T065959Z", first="2026-02-01") == [32, 33]
    assert days("FREQ=DAILY;UNTIL=20260203T080000", first="2026-02-01") == [32, 33, 34]
    assert days("FREQ=DAILY", first="2026-02-01", last="2026-02-03") == [32, 33, 34]
    assert days("FREQ=DAILY;COUNT=9;INTERVAL=2", first="2026-02-01", last="2026-02-03") == [32, 34]
    assert days("FREQ=DAILY;COUNT=2", first="2025-12-01") == []


def test_several_times_a_day_replace_the_start() -> None:
    twice = Recurrence("FREQ=DAILY;BYHOUR=8,13", "00:30", HOUR, "UTC")
    assert twice.windows(0, 86_400) == [
        Interval(30_600, 34_200),
        Interval(48_600, 52_200),
    ]


@pytest.mark.parametrize(
    ("rule", "start", "length_s", "words"),
    [
        ("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "08:00", 36_000, "Mon-Fri 08:00-18:00"),
        ("FREQ=WEEKLY;BYDAY=SU,MO,SA", "22:00", 28_800, "Mon, Sat-Sun 22:00-06:00 (next day)"),
        ("FREQ=DAILY", "00:00", 86_400, "daily all day"),
        ("FREQ=DAILY", "12:00", 43_200, "daily 12:00-24:00"),
        ("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR,SA,SU", "08:00:30", 60, "daily 08:00:30-08:01:30"),
        ("FREQ=DAILY;BYHOUR=8,12", "00:00", 3600, "daily 08:00-09:00, 12:00-13:00"),
        ("FREQ=WEEKLY;BYDAY=FR", "18:00", 219_600, "Fri 18:00-07:00 (3 days later)"),
        ("FREQ=MONTHLY;BYDAY=1MO,-1FR", "08:00", 60, "monthly on the 1st Mon, last Fri 08:00-08:01"),
        ("FREQ=MONTHLY;BYMONTHDAY=1,22,-2", "08:00", 60,
         "monthly on the 2nd last day, 1st day, 22nd day of the month 08:00-08:01"),
        ("FREQ=YEARLY;BYYEARDAY=100", "08:00", 60, "FREQ=YEARLY;BYYEARDAY=100 08:00-08:01"),
        ("FREQ=MONTHLY;BYDAY=MO", "08:00", 60, "Mon 08:00-08:01"),
    ],
)  # fmt: skip
def test_recurrences_describe_themselves_for_people(
    rule: str, start: str, length_s: int, words: str
) -> None:
    recurrence = Recurrence(rule, start, length_s, LOS_ANGELES)
    assert recurrence.describe() == f"{words} America/Los_Angeles"
    assert words in repr(recurrence)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("FREQ=WEEKLY", "Mon 08:00-09:00"),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=SA,SU", "every 2 weeks on Sat-Sun 08:00-09:00"),
        ("FREQ=DAILY;INTERVAL=3", "every 3 days 08:00-09:00"),
        ("FREQ=MONTHLY", "monthly on the 2nd day of the month 08:00-09:00"),
        ("FREQ=YEARLY", "yearly on 2 Mar 08:00-09:00"),
    ],
)
def test_rules_that_count_from_a_day_describe_it(rule: str, words: str) -> None:
    recurrence = Recurrence(rule, "08:00", HOUR, BERLIN, first="2026-03-02", last="2028-06-30")
    assert recurrence.describe() == f"{words} Europe/Berlin from 2026-03-02 until 2028-06-30"


def test_recurrences_are_values() -> None:
    one = Recurrence("FREQ=DAILY", "08:00", HOUR, BERLIN)
    same = Recurrence("FREQ=DAILY", time(8), HOUR, BERLIN)
    other = Recurrence("FREQ=DAILY", time(9), HOUR, BERLIN)
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != "FREQ=DAILY"


@pytest.mark.parametrize(
    "rule",
    [
        "", "DAILY", "FREQ=", "FREQ=SECONDLY", "FREQ=MINUTELY", "FREQ=HOURLY", "FREQ=SOMETIMES",
        "FREQ=DAILY;FREQ=DAILY", "FREQ=DAILY;COLOUR=RED", "FREQ=DAILY;BYSECOND=1", "INTERVAL=2",
        "FREQ=DAILY;COUNT=1001", "FREQ=DAILY;COUNT=0", "FREQ=DAILY;COUNT=-1", "FREQ=DAILY;COUNT=1,2",
        "FREQ=DAILY;COUNT=99999999999999999999", "FREQ=DAILY;COUNT=2;UNTIL=20260101",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;COUNT=1", "FREQ=YEARLY;COUNT=1000",
        "FREQ=DAILY;INTERVAL=0", "FREQ=DAILY;INTERVAL=1001", "FREQ=DAILY;INTERVAL=x",
        "FREQ=DAILY;INTERVAL=\u0663", "FREQ=WEEKLY;BYDAY=XX", "FREQ=WEEKLY;BYDAY=1MO",
        "FREQ=MONTHLY;BYDAY=6MO", "FREQ=MONTHLY;BYDAY=0MO", "FREQ=YEARLY;BYDAY=54MO",
        "FREQ=YEARLY;BYWEEKNO=20", "FREQ=YEARLY;BYWEEKNO=20;BYDAY=1MO", "FREQ=MONTHLY;BYWEEKNO=20;BYDAY=MO",
        "FREQ=DAILY;BYYEARDAY=1", "FREQ=YEARLY;BYYEARDAY=0", "FREQ=YEARLY;BYYEARDAY=367",
        "FREQ=WEEKLY;BYMONTHDAY=1", "FREQ=MONTHLY;BYMONTHDAY=32", "FREQ=MONTHLY;BYMONTHDAY=0",
        "FREQ=DAILY;BYMONTH=13", "FREQ=DAILY;BYHOUR=24", "FREQ=DAILY;BYMINUTE=60", "FREQ=DAILY;WKST=1",
        "FREQ=DAILY;BYSETPOS=1", "FREQ=DAILY;BYHOUR=1,2,3,4,5;BYMINUTE=1,2,3,4,5",
        "FREQ=DAILY;UNTIL=2026", "FREQ=DAILY;UNTIL=20260230", "FREQ=DAILY;UNTIL=00010101T000000Z",
        "FREQ=DAILY;UNTIL=20260101T250000", "FREQ=DAILY;" + "BYMONTH=1," * 100,
    ],
)  # fmt: skip
def test_rules_that_are_wrong_or_yield_too_much_are_refused(rule: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Recurrence(rule, "08:00", HOUR, BERLIN, first="2026-01-01")
    assert caught.value.where == "rrule"
    assert caught.value.remedy


@pytest.mark.parametrize("rule", ["FREQ=WEEKLY", "FREQ=DAILY;INTERVAL=2", "FREQ=DAILY;COUNT=2"])
def test_a_rule_that_counts_from_a_day_must_be_given_that_day(rule: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Recurrence(rule, "08:00", HOUR, BERLIN)
    assert caught.value.where == "first"


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("rrule", None), ("rrule", 5),
        ("start", "25:00"), ("start", "noon"), ("start", None), ("start", time(8, tzinfo=UTC)),
        ("start", time(8, 0, 0, 1)), ("start", 8),
        ("duration_s", 0), ("duration_s", -1), ("duration_s", 1.5), ("duration_s", True),
        ("duration_s", float("nan")), ("duration_s", 10**30),
        ("zone", "Mars/Olympus"), ("zone", ""), ("zone", "../etc/passwd"), ("zone", None),
        ("first", "2026-02-30"), ("first", "0001-01-01"), ("first", datetime(2026, 1, 1)), ("first", 1),
        ("last", "9999-12-31"), ("last", "soon"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(where: str, value: Any) -> None:
    fields: dict[str, Any] = {
        "rrule": "FREQ=DAILY", "start": "08:00", "duration_s": HOUR, "zone": BERLIN, where: value,
    }  # fmt: skip
    with pytest.raises(InvalidInput) as caught:
        Recurrence(**fields)
    assert caught.value.where == where


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 0), (5, 1), (-1, 5), (0, limits.WINDOW_S_MAX * 2), (0, 10**30), (0.0, 5), (0, True)],
)
def test_a_window_without_bounds_is_refused(start: Any, end: Any) -> None:
    windows = Windows([Recurrence("FREQ=DAILY", "08:00", HOUR, BERLIN)])
    for call in (windows.between, windows.cover):
        with pytest.raises(InvalidInput):
            call(start, end)


def test_no_recurrences_are_never_open() -> None:
    assert Windows([]).between(0, 86_400) == []
    assert not Windows([]).cover(0, 86_400)


def test_looking_at_far_apart_years_keeps_a_bounded_number_of_chunks() -> None:
    windows = Windows([Recurrence("FREQ=DAILY", "08:00", HOUR, "UTC")])
    for year in range(1970, 2970, 5):
        start = utc(year, 6, 1)
        assert windows.between(start, start + 86_400) == [
            Interval(start + 8 * HOUR, start + 9 * HOUR)
        ]
    assert len(windows._chunks) <= 64


@pytest.mark.parametrize(
    ("start", "length_s", "words"),
    [
        ("00:00", 24 * HOUR, "all day Thu 2026-12-24"),
        ("00:00", 216 * HOUR, "all day from Thu 2026-12-24 to Fri 2027-01-01"),
        ("18:00", 2 * HOUR, "Thu 2026-12-24 18:00-20:00"),
        ("18:00", 6 * HOUR, "Thu 2026-12-24 18:00-24:00"),
        ("18:00", 24 * HOUR, "from Thu 2026-12-24 18:00 to Fri 2026-12-25 18:00"),
    ],
)
@pytest.mark.parametrize("last", [None, "2026-12-24"])
def test_a_window_that_comes_once_is_told_by_its_days(
    start: str, length_s: int, words: str, last: str | None
) -> None:
    rule = "FREQ=DAILY" if last else "FREQ=DAILY;COUNT=1"
    once = Recurrence(rule, start, length_s, BERLIN, first="2026-12-24", last=last)
    assert once.describe() == f"{words} Europe/Berlin"


def test_rules_that_need_a_first_day_say_how_to_give_it() -> None:
    with pytest.raises(InvalidInput) as counted:
        Recurrence("FREQ=WEEKLY;INTERVAL=2;BYDAY=TU", "08:00", HOUR, BERLIN)
    assert (counted.value.where, counted.value.remedy) == (
        "first", 'give it, as first = "2026-03-02"',
    )  # fmt: skip
    with pytest.raises(InvalidInput, match="DTSTART") as started:
        Recurrence("DTSTART=20260302;FREQ=WEEKLY", "08:00", HOUR, BERLIN)
    assert 'first = "2026-03-02"' in started.value.remedy
