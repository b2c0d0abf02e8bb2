"""Durations, times and windows: what is understood, what is refused, and what is echoed."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.core import limits
from kalends.core.durations import format_duration, parse_duration, parse_offset
from kalends.core.errors import InvalidInput
from kalends.core.times import check_time, format_time, parse_time, parse_window, zone_named

ZURICH = "Europe/Zurich"
NOW = 1_772_440_200
"""Monday 2 March 2026, 09:30 in Zurich."""


def full(text: str, zone: str = ZURICH, now_s: int = NOW) -> str:
    return format_time(parse_time(text, now_s, zone), zone)


@pytest.mark.parametrize(
    ("text", "length_s"),
    [
        ("90s", 90), ("15m", 900), ("1.5h", 5_400), ("2d", 172_800), ("1w", 604_800),
        ("1h30m", 5_400), ("1h 30m", 5_400), ("01:30:00", 5_400), ("36:00:00", 129_600),
        ("15 min", 900), ("2 hours", 7_200), (" 90 seconds ", 90), ("0.1h", 360), ("366d", 31_622_400),
    ],
)  # fmt: skip
def test_a_duration_is_read_with_its_unit(text: str, length_s: int) -> None:
    assert parse_duration(text) == length_s


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("90", "90m"), ("1h30", "30m"), ("1:30", "HH:MM:SS"), ("2mo", "30d"), ("1y", "30d"),
        ("15M", "lower case"), ("30m1h", "larger ones first"), ("1h1h", "each unit once"),
        ("1.0001s", "round"), ("0s", "unit"), ("", "unit"), ("soon", "unit"), ("-5m", "unit"),
        ("367d", "shorten"), ("1e5s", "units are"), ("٣m", "unit"), ("9" * 70 + "s", "unit"),
        ("1:60:00", "1h30m"), ("nan", "unit"), ("1h;", "unit"),
    ],
)  # fmt: skip
def test_what_is_no_duration_is_refused_with_advice(text: str, advice: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_duration(text, where="hold")
    assert caught.value.where == "hold"
    assert advice in caught.value.remedy


def test_an_offset_has_a_sign_and_may_be_nothing() -> None:
    assert [parse_offset(text) for text in ("-10m", "+2h", "2h", "- 10m", "0s")] == [
        -600, 7_200, 7_200, -600, 0,
    ]  # fmt: skip
    with pytest.raises(InvalidInput):
        parse_offset("-367d")
    with pytest.raises(InvalidInput):
        parse_offset("--10m")


@given(st.integers(1, limits.DURATION_S_MAX))
def test_a_duration_reads_back_as_it_was_written(length_s: int) -> None:
    assert parse_duration(format_duration(length_s)) == length_s
    assert parse_offset(format_duration(-length_s)) == -length_s


@given(st.text(max_size=80) | st.text("0123456789.:hmsdw -+", max_size=20))
def test_any_text_gives_a_duration_within_its_limit_or_is_refused(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        assert 1 <= parse_duration(text) <= limits.DURATION_S_MAX


@pytest.mark.parametrize(
    ("text", "understood"),
    [
        ("now", "Mon 2026-03-02 09:30:00 CET (UTC+01:00)"),
        ("now+2h", "Mon 2026-03-02 11:30:00 CET (UTC+01:00)"),
        ("now - 10m", "Mon 2026-03-02 09:20:00 CET (UTC+01:00)"),
        ("2026-03-02T09:00", "Mon 2026-03-02 09:00:00 CET (UTC+01:00)"),
        ("2026-07-02 09:00:30", "Thu 2026-07-02 09:00:30 CEST (UTC+02:00)"),
        ("2026-03-02T09:00Z", "Mon 2026-03-02 10:00:00 CET (UTC+01:00)"),
        ("2026-03-02T09:00:00.000+05:30", "Mon 2026-03-02 04:30:00 CET (UTC+01:00)"),
        ("2026-03-02T09:00-0800", "Mon 2026-03-02 18:00:00 CET (UTC+01:00)"),
        ("2026-03-02T24:00", "Tue 2026-03-03 00:00:00 CET (UTC+01:00)"),
        ("2026-03-02", "Mon 2026-03-02 00:00:00 CET (UTC+01:00)"),
        ("today 08:00", "Mon 2026-03-02 08:00:00 CET (UTC+01:00)"),
        ("tomorrow 08:00", "Tue 2026-03-03 08:00:00 CET (UTC+01:00)"),
        ("Tomorrow at 8:00", "Tue 2026-03-03 08:00:00 CET (UTC+01:00)"),
        ("yesterday", "Sun 2026-03-01 00:00:00 CET (UTC+01:00)"),
        ("mon 09:00", "Mon 2026-03-09 09:00:00 CET (UTC+01:00)"),
        ("mon 09:30", "Mon 2026-03-02 09:30:00 CET (UTC+01:00)"),
        ("next monday 9:45", "Mon 2026-03-09 09:45:00 CET (UTC+01:00)"),
        ("next wed 9:45", "Wed 2026-03-04 09:45:00 CET (UTC+01:00)"),
        ("thurs 7:00", "Thu 2026-03-05 07:00:00 CET (UTC+01:00)"),
        ("sunday", "Sun 2026-03-08 00:00:00 CET (UTC+01:00)"),
        ("09:29", "Tue 2026-03-03 09:29:00 CET (UTC+01:00)"),
        ("9:30", "Mon 2026-03-02 09:30:00 CET (UTC+01:00)"),
        ("1772442000", "Mon 2026-03-02 10:00:00 CET (UTC+01:00)"),
        ("tomorrow 08:00 America/New_York", "Tue 2026-03-03 14:00:00 CET (UTC+01:00)"),
        ("2026-03-02 12:00 UTC", "Mon 2026-03-02 13:00:00 CET (UTC+01:00)"),
    ],
)
def test_a_time_is_understood_in_its_zone(text: str, understood: str) -> None:
    assert full(text) == understood


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "not a time"), ("soon", "not a time"), ("900", "only a number"),
        ("2026", "only a number"), ("1772442000000", "after the year 3000"),
        ("3000-06-01", "after the year 3000"), ("3001-01-01", "year 3001"),
        ("0001-01-01", "year 1"), ("99999-01-01", "year 99999"), ("2026-02-30", "not a day"),
        ("2026-13-01", "not a day"), ("2026-03-02T25:00", "not a time of day"),
        ("24:01", "not a time of day"), ("09:60", "not a time of day"), ("9", "only a number"),
        ("2026-03-02T09:00+25:00", "not an offset"), ("2026-03-02T09:00:00.5", "not a time"),
        ("2026-03-02T09:00Z Europe/Zurich", "both an offset and a zone"), ("now+2", "no unit"),
        ("now+9d9d", "out of order"), ("next tomorrow", "not a day"), ("1969-12-31", "year 1969"),
        ("1970-01-01T00:00+01:00", "before 1970"), ("x" * 300, "too long"),
        ("9 " * 150, "too long"), ("nan", "not a time"), ("+2", "not a time"),
        ("monkey 09:00", "not a time"), ("next", "not a time"),
    ],
)  # fmt: skip
def test_what_is_no_time_is_refused_with_a_place_and_advice(text: str, part: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_time(text, NOW, ZURICH, where="at")
    assert part in caught.value.detail
    assert caught.value.where == "at"
    assert caught.value.remedy


def test_milliseconds_are_recognised() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_time("1772442000000", NOW, ZURICH)
    assert "milliseconds" in caught.value.remedy


@pytest.mark.parametrize("time_s", [float("nan"), float("inf"), -1, 1.5, 1e300, 33e9])
def test_a_number_that_is_no_time_is_refused(time_s: float) -> None:
    with pytest.raises(InvalidInput):
        check_time(time_s)


def test_a_whole_float_is_a_time() -> None:
    assert check_time(60.0) == 60


def test_a_time_that_the_clocks_skip_is_refused_naming_the_gap() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_time("2026-03-29 02:30", NOW, ZURICH)
    assert "from 2026-03-29 02:00 straight to 2026-03-29 03:00" in caught.value.detail
    assert "2026-03-29 03:00" in caught.value.remedy
    assert full("2026-03-29 01:59:59").endswith("CET (UTC+01:00)")
    assert full("2026-03-29 03:00").endswith("CEST (UTC+02:00)")


def test_a_gap_of_a_whole_day_and_one_at_midnight_are_named() -> None:
    with pytest.raises(InvalidInput, match="from 2011-12-30 00:00 straight to 2011-12-31 00:00"):
        parse_time("2011-12-30", NOW, "Pacific/Apia")
    with pytest.raises(InvalidInput, match="from 2018-11-04 00:00 straight to 2018-11-04 01:00"):
        parse_time("2018-11-04 00:30", NOW, "America/Sao_Paulo")


def test_a_day_without_midnight_begins_where_its_gap_ends() -> None:
    assert "2018-11-04 01:00:00" in full("2018-11-04", "America/Sao_Paulo")


def test_a_time_shown_twice_is_the_first_of_the_two_and_says_so() -> None:
    assert full("2026-10-25 02:30") == "Sun 2026-10-25 02:30:00 CEST (UTC+02:00), the first of two"
    assert full("2026-10-25T02:30+01:00").endswith("CET (UTC+01:00), the second of two")
    assert full("2026-10-25 01:30").endswith("CEST (UTC+02:00)")


def test_a_time_of_day_shown_twice_is_the_first_still_to_come() -> None:
    between = parse_time("2026-10-25T02:40+02:00", NOW, ZURICH)
    assert full("02:30", now_s=between).endswith("02:30:00 CET (UTC+01:00), the second of two")
    assert full("02:50", now_s=between).endswith("02:50:00 CEST (UTC+02:00), the first of two")


def test_a_time_of_day_that_was_skipped_this_morning_is_tomorrows() -> None:
    noon = parse_time("2026-03-29 12:00", NOW, ZURICH)
    assert full("02:30", now_s=noon) == "Mon 2026-03-30 02:30:00 CEST (UTC+02:00)"
    with pytest.raises(InvalidInput, match="does not exist"):
        parse_time("02:30", parse_time("2026-03-29 01:00", NOW, ZURICH), ZURICH)


def test_a_zone_whose_short_name_is_a_number_is_echoed_by_its_name() -> None:
    assert full("2026-03-02", "America/Sao_Paulo").endswith("America/Sao_Paulo (UTC-03:00)")
    assert full("2026-03-02", "UTC") == "Mon 2026-03-02 00:00:00 UTC (UTC+00:00)"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Europe/Zuerich", "Europe/Zurich"), ("Zurich", "Europe/Zurich"),
        ("europe/zurich", "Europe/Zurich"), ("New York", "America/New_York"),
        ("", "IANA"), ("../../etc/passwd", "IANA"), ("a\0b", "IANA"), ("x" * 5_000, "IANA"),
    ],
)  # fmt: skip
def test_an_unknown_zone_is_refused_with_near_names(name: str, near: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        zone_named(name)
    assert near in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("now .. now+2h", "now", "now+2h"),
        ("tomorrow 08:00 .. 12:00", "tomorrow 08:00", "tomorrow 12:00"),
        ("fri 22:00 .. 06:00", "2026-03-06 22:00", "2026-03-07 06:00"),
        ("thu 10:00 .. wed", "2026-03-05 10:00", "2026-03-11"),
        ("2026-03-02 .. 2026-03-04", "2026-03-02", "2026-03-04"),
        ("tomorrow 08:00 for 90m", "tomorrow 08:00", "tomorrow 09:30"),
        ("now for 400d", "now", "2027-04-06 10:30"),
        ("now+400d .. now+401d", "2027-04-06 10:30", "2027-04-07 10:30"),
        ("tomorrow", "2026-03-03", "2026-03-04"),
        ("2026-03-29", "2026-03-29 00:00", "2026-03-30 00:00"),
        ("fri Asia/Tokyo", "2026-03-06 00:00 Asia/Tokyo", "2026-03-07 00:00 Asia/Tokyo"),
    ],
)
def test_a_window_is_a_start_and_an_end_a_length_or_a_whole_day(
    text: str, start: str, end: str
) -> None:
    assert parse_window(text, NOW, ZURICH) == (
        parse_time(start, NOW, ZURICH),
        parse_time(end, NOW, ZURICH),
    )


def test_days_of_clock_changes_are_an_hour_shorter_and_longer() -> None:
    assert parse_window("2026-03-29", NOW, ZURICH).length_s == 23 * 3_600
    assert parse_window("2026-10-25", NOW, ZURICH).length_s == 25 * 3_600


@pytest.mark.parametrize(
    "text", ["", "now", "tomorrow 08:00", "now .. now", "now+2h .. now", "now for 2", "a .. b .. c"]
)
def test_what_is_no_window_is_refused_with_advice(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_window(text, NOW, ZURICH)
    assert caught.value.where == "window"
    assert caught.value.remedy


ZONES = ("UTC", ZURICH, "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia")


@given(st.integers(0, limits.TIME_S_MAX), st.sampled_from(ZONES))
def test_every_time_is_read_back_from_its_echo(time_s: int, zone: str) -> None:
    day, clock, *_ = format_time(time_s, zone).split()[1:]
    offset = format_time(time_s, zone).partition("(UTC")[2].partition(")")[0]
    if len(offset) == len("+01:00") and not day.startswith("1969"):
        assert parse_time(f"{day}T{clock}{offset}", NOW, zone) == time_s


@given(
    st.text(max_size=60)
    | st.text("0123456789-:+TZ now.", max_size=30)
    | st.builds(
        " ".join, st.lists(st.sampled_from(["next", "mon", "now", "+2h", "09:00", "today", "UTC"]))
    )
)
def test_any_text_gives_a_time_or_is_refused(text: str) -> None:
    for read in (parse_time, parse_window):
        with contextlib.suppress(InvalidInput):
            read(text, NOW, ZURICH)
