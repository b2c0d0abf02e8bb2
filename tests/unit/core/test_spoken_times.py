"""Times as people say them mean what they say, in the zone of whoever says them."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from kalends.core.durations import parse_duration
from kalends.core.errors import InvalidInput
from kalends.core.times import parse_time, parse_window

ZONE = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 28, 10, 12, tzinfo=ZONE)
"""A Saturday."""


def read(text: str) -> str:
    return f"{datetime.fromtimestamp(parse_time(text, int(NOW.timestamp()), ZONE), ZONE):%Y-%m-%d %H:%M}"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("in 2h", "2026-11-28 12:12"), ("+3h", "2026-11-28 13:12"), ("-1d", "2026-11-27 10:12"),
        ("in 3 days", "2026-12-01 10:12"), ("in PT2H", "2026-11-28 12:12"),
        ("9am", "2026-11-29 09:00"), ("9:30 p.m.", "2026-11-28 21:30"), ("12am", "2026-11-29 00:00"),
        ("12pm", "2026-11-28 12:00"), ("noon", "2026-11-28 12:00"), ("midnight", "2026-11-29 00:00"),
        ("tomorrow noon", "2026-11-29 12:00"), ("tomorrow at 9am", "2026-11-29 09:00"),
        ("9am tomorrow", "2026-11-29 09:00"), ("noon on friday", "2026-12-04 12:00"),
        ("this friday 8pm", "2026-12-04 20:00"), ("Friday Midnight", "2026-12-04 00:00"),
        ("30 nov", "2026-11-30 00:00"), ("Nov 30th at 9am", "2026-11-30 09:00"),
        ("28 nov", "2026-11-28 00:00"), ("1 november", "2027-11-01 00:00"),
        ("29 feb", "2028-02-29 00:00"), ("30 nov, 2028 14:00", "2028-11-30 14:00"),
        ("2026/11/30", "2026-11-30 00:00"), ("2026/1/5 9am", "2026-01-05 09:00"),
        ("30.11.2026", "2026-11-30 00:00"),
        ("next week", "2026-11-30 00:00"), ("next week 9am", "2026-11-30 09:00"),
        ("next month", "2026-12-01 00:00"), ("next monday 9am", "2026-11-30 09:00"),
    ],
)  # fmt: skip
def test_what_people_say_is_understood(said: str, meant: str) -> None:
    assert read(said) == meant


@pytest.mark.parametrize("text", ["13pm", "0am", "31 feb", "11/30/2026", "mon 5", "in two hours"])
def test_what_could_mean_several_times_or_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        read(text)


def test_next_week_is_seven_days_and_an_end_may_be_said_like_a_start() -> None:
    now_s = int(NOW.timestamp())
    week = parse_window("next week", now_s, ZONE)
    assert week.length_s == 7 * 86_400
    night = parse_window("fri 10pm .. 6am", now_s, ZONE)
    assert night.length_s == 8 * 3_600


def test_lengths_of_iso_8601_are_read() -> None:
    assert parse_duration("PT2H") == 7_200
    assert parse_duration("P1DT2H30M") == 95_400
    for text in ("P", "PT", "P1M"):
        with pytest.raises(InvalidInput):
            parse_duration(text)
