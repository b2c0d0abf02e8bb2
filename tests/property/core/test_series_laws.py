"""Occurrences of series against python-dateutil, in zones with all kinds of clock changes."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from dateutil.tz import datetime_exists, resolve_imaginary
from hypothesis import event, given
from hypothesis import strategies as st

from kalends.core.errors import InvalidInput
from kalends.core.limits import SERIES_MAX
from kalends.core.repeat import WEEKDAYS
from kalends.core.series import Occurrence, occurrences, rule_of_words

ZONES: Final = (
    "Europe/Berlin", "Europe/London", "America/Los_Angeles", "America/New_York", "America/St_Johns",
    "America/Santiago", "Australia/Lord_Howe", "Pacific/Auckland", "Asia/Kathmandu", "Africa/Casablanca",
    "Pacific/Apia", "UTC",
)  # fmt: skip
HOUR_S: Final = 3_600


def expected(rule: str, first: datetime, zone: ZoneInfo) -> list[Occurrence]:
    """What dateutil says of local times, each converted by itself; `LookupError` for a skipped one."""
    found = []
    for local in rrulestr(rule, dtstart=first):
        aware = local.replace(tzinfo=zone, fold=0)
        if not datetime_exists(aware):
            raise LookupError(resolve_imaginary(aware))
        found.append(Occurrence(local.strftime("%Y-%m-%dT%H:%M"), int(aware.timestamp())))
    return found


def random_series(seed: int) -> tuple[str, datetime, ZoneInfo]:
    """A series that begins in 2026 and meets a clock change wherever there are some."""
    chance = random.Random(seed)
    zone = ZoneInfo(ZONES[seed % len(ZONES)])
    days = ",".join(chance.sample(WEEKDAYS, chance.randint(1, 3)))
    rule = chance.choice(
        (
            "FREQ=DAILY", f"FREQ=DAILY;INTERVAL={chance.randint(2, 9)}", "FREQ=WEEKLY",
            f"FREQ=WEEKLY;BYDAY={days}", f"FREQ=WEEKLY;INTERVAL={chance.randint(2, 3)};BYDAY={days}",
            f"FREQ=MONTHLY;BYMONTHDAY={chance.randint(1, 31)}",
            f"FREQ=MONTHLY;BYDAY={chance.choice((1, 2, -1))}{chance.choice(WEEKDAYS)}",
            f"FREQ=WEEKLY;BYDAY={days};BYHOUR=1,2,3;BYMINUTE=30",
        )
    )  # fmt: skip
    first = datetime(2026, 1, 1) + timedelta(
        days=chance.randrange(330), minutes=30 * chance.choice((0, 2, 3, 4, 5, 6, 18, 28))
    )
    if chance.random() < 0.5:
        return f"{rule};COUNT={chance.randint(1, 60)}", first, zone
    last = first + timedelta(days=chance.randint(0, 60), hours=chance.randint(0, 23))
    return f"{rule};UNTIL={last:%Y%m%dT%H%M%S}", first, zone


def test_two_hundred_random_series_begin_when_dateutil_says_across_both_clock_changes() -> None:
    compared = refused = shifted = 0
    for seed in range(240):
        rule, first, zone = random_series(seed)
        try:
            wanted = expected(rule, first, zone)
        except LookupError:
            with pytest.raises(InvalidInput, match="skip"):
                occurrences(rule, first, zone, 60)
            refused += 1
            continue
        if not wanted or len(wanted) > SERIES_MAX:
            with pytest.raises(InvalidInput):
                occurrences(rule, first, zone, 60)
            continue
        assert list(occurrences(rule, first, zone, 60)) == wanted, (rule, first, zone)
        compared += 1
        offsets = {datetime.fromtimestamp(each.start, zone).utcoffset() for each in wanted}
        shifted += len(offsets) > 1
    assert compared >= 200
    assert shifted >= 40
    assert refused


def test_a_rule_may_end_at_an_instant() -> None:
    zone = ZoneInfo("Europe/Berlin")
    first = datetime(2026, 10, 18, 9)
    until = datetime(2026, 10, 25, 8, tzinfo=UTC)  # 09:00 in Berlin, on the day of the change.
    rule = f"FREQ=WEEKLY;UNTIL={until:%Y%m%dT%H%M%SZ}"
    assert [each.name for each in occurrences(rule, first, zone, HOUR_S)] == [
        "2026-10-18T09:00",
        "2026-10-25T09:00",
    ]


@given(st.sets(st.integers(0, 9), max_size=9))
def test_days_that_are_skipped_count_and_are_left_out(skipped: set[int]) -> None:
    zone = ZoneInfo("Europe/Berlin")
    days = [date(2026, 3, 2) + timedelta(weeks=week) for week in range(10)]
    skip = [str(days[index]) for index in skipped]
    found = occurrences("FREQ=WEEKLY;COUNT=10", datetime(2026, 3, 2, 14), zone, HOUR_S, skip)
    left = [day for index, day in enumerate(days) if index not in skipped]
    assert [each.name[:10] for each in found] == [str(day) for day in left]


def test_the_first_of_two_hours_is_meant_and_a_skipped_one_is_refused() -> None:
    zone = ZoneInfo("Europe/Berlin")
    (twice,) = occurrences("FREQ=DAILY;COUNT=1", datetime(2026, 10, 25, 2, 30), zone, HOUR_S)
    assert twice.start == int(datetime(2026, 10, 25, 0, 30, tzinfo=UTC).timestamp())
    with pytest.raises(InvalidInput, match="skip 2026-03-29T02:30") as refused:
        occurrences("FREQ=DAILY;COUNT=3", datetime(2026, 3, 28, 2, 30), zone, HOUR_S)
    assert "leave out 2026-03-29" in str(refused.value.remedy)


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ("FREQ=DAILY", "no end"),
        ("FREQ=DAILY;COUNT=201", "more than 200"),
        ("FREQ=DAILY;UNTIL=20290101", "more than 200"),
        ("FREQ=MONTHLY;BYMONTHDAY=30;BYMONTH=2;COUNT=2", "do not end within"),
        ("FREQ=DAILY;UNTIL=20250101", "no occurrence"),
        ("FREQ=DAILY;BYHOUR=9,10;COUNT=2", "until after the next one"),
        ("FREQ=HOURLY;COUNT=2", "too often"),
    ],
)
def test_what_is_no_series_is_refused_with_its_reason(rule: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        occurrences(rule, datetime(2026, 3, 2, 9), ZoneInfo("UTC"), 2 * HOUR_S)


def test_whole_days_that_the_clocks_shorten_are_refused_with_what_helps() -> None:
    zone = ZoneInfo("Europe/Berlin")
    with pytest.raises(InvalidInput, match="skip a part of the occurrence 2026-03-29T00:00") as why:
        occurrences("FREQ=DAILY;COUNT=5", datetime(2026, 3, 27), zone, 24 * HOUR_S)
    assert why.value.remedy.endswith("leave out 2026-03-29 and book it by itself")
    skip = ["2026-03-29"]
    found = occurrences("FREQ=DAILY;COUNT=5", datetime(2026, 3, 27), zone, 24 * HOUR_S, skip)
    assert len(found) == 4


def test_a_series_ends_before_times_do() -> None:
    with pytest.raises(InvalidInput, match="after the year 3000"):
        occurrences("FREQ=DAILY;COUNT=3", datetime(2999, 12, 30, 14), ZoneInfo("UTC"), HOUR_S)


def test_a_day_to_skip_must_be_one_of_the_series() -> None:
    with pytest.raises(InvalidInput, match="no occurrence begins on 2026-03-03"):
        occurrences(
            "FREQ=WEEKLY;COUNT=3", datetime(2026, 3, 2, 9), ZoneInfo("UTC"), HOUR_S, ["2026-03-03"]
        )


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("week", "FREQ=WEEKLY"),
        ("week on tue,thu", "FREQ=WEEKLY;BYDAY=TU,TH"),
        ("every 2 weeks on monday", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO"),
        ("other week", "FREQ=WEEKLY;INTERVAL=2"),
        ("Daily", "FREQ=DAILY"),
        ("month on 1, 15", "FREQ=MONTHLY;BYMONTHDAY=1,15"),
        ("month on the last fri", "FREQ=MONTHLY;BYDAY=-1FR"),
        ("3 months on 2nd tue", "FREQ=MONTHLY;INTERVAL=3;BYDAY=2TU"),
    ],
)
def test_a_rule_is_said_in_words(words: str, rule: str) -> None:
    assert rule_of_words(words) == rule


def test_words_may_have_an_end() -> None:
    assert rule_of_words("week", times=3) == "FREQ=WEEKLY;COUNT=3"
    assert rule_of_words("day", until=date(2027, 2, 12)) == "FREQ=DAILY;UNTIL=20270212"


@given(st.text(max_size=40) | st.from_regex(r"\A(\d )?(week|month|day)s? on [a-z0-9, ]{0,12}\Z"))
def test_any_words_are_a_rule_or_refused(words: str) -> None:
    try:
        rule = rule_of_words(words, times=2)
    except InvalidInput:
        return
    try:
        occurrences(rule, datetime(2026, 3, 2, 9), ZoneInfo("UTC"), 60)
    except InvalidInput as error:
        event(error.detail[:20])
