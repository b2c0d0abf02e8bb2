"""Times of a working day: both ends together, bare days, abbreviations, and the zones of others."""

from __future__ import annotations

from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.core.durations import parse_duration
from kalends.core.errors import InvalidInput
from kalends.core.times import format_time, in_zone, parse_end, parse_time, parse_window
from kalends.core.zone_names import given_zone, zone_named, zones_showing

BERLIN = ZoneInfo("Europe/Berlin")
NOW = parse_time("2027-03-01T10:00Z", 0, "UTC")  # a Monday
LATEST = 32_000_000_000


def utc(text: str) -> int:
    return parse_time(text, NOW, "UTC")


@pytest.mark.parametrize(
    ("start", "end", "meant"),
    [
        ("09:00", "17:00", "2027-03-02 17:00"),
        ("22:00", "06:00", "2027-03-02 06:00"),
        ("now", "17:00", "2027-03-01 17:00"),
        ("9am", "5pm", "2027-03-02 17:00"),
        ("tomorrow 09:00", "17:00", "2027-03-02 17:00"),
        ("next monday 09:00", "fri 18:00", "2027-03-12 18:00"),
        ("next monday", "next friday", "2027-03-12"),
        ("next monday 10:00", "next monday 12:00", "2027-03-08 12:00"),
        ("next monday 10:00", "12pm next Monday", "2027-03-08 12:00"),
        ("next monday", "next monday 23:59", "2027-03-08 23:59"),
        ("fri 10:00", "next fri 12:00", "2027-03-05 12:00"),
        ("next monday 12:00", "next monday 10:00", "2027-03-15 10:00"),
        ("now", "next monday 12:00", "2027-03-08 12:00"),
        ("today", "next tuesday 12:00", "2027-03-02 12:00"),
        ("fri", "mon", "2027-03-08"),
        ("20 dec", "10 jan", "2028-01-10"),
        ("wed 09:00", "tomorrow 17:00", "2027-03-02 17:00"),
        ("09:00", "now+2h", "2027-03-01 12:00"),
        ("09:00", "2027-03-01 17:00", "2027-03-01 17:00"),
        ("09:00", "17:00 Asia/Tokyo", "2027-03-03 08:00"),
    ],
)
def test_an_end_without_a_day_is_the_first_one_after_the_start(
    start: str, end: str, meant: str
) -> None:
    assert parse_end(end, utc(start), NOW, "UTC") == utc(meant)


def test_a_window_in_one_text_is_read_as_its_two_ends_are() -> None:
    assert parse_window("09:00 .. 17:00", NOW, "UTC") == (
        utc("2027-03-02 09:00"), utc("2027-03-02 17:00"),
    )  # fmt: skip


@pytest.mark.parametrize(
    "day", ["next tuesday", "tomorrow", "today", "2027-03-05", "30 nov", "fri", "next week", "5.3.2027"]
)  # fmt: skip
def test_a_day_is_refused_where_a_time_of_day_is_needed_with_times_that_work(day: str) -> None:
    with pytest.raises(InvalidInput, match="without a time of day") as refused:
        parse_time(day, NOW, "UTC", exact=True)
    quoted = refused.value.remedy.split("'")[1::2]
    assert quoted
    for text in quoted:
        assert parse_time(text, NOW, "UTC", exact=True)
    assert parse_time(quoted[0], NOW, "UTC") > NOW
    assert parse_time(day, NOW, "UTC") is not None


@pytest.mark.parametrize(
    "text", ["midnight", "tomorrow midnight", "fri 00:00", "now", "1772442000"]
)
def test_a_time_of_day_may_be_midnight(text: str) -> None:
    assert parse_time(text, NOW, "UTC", exact=True) == parse_time(text, NOW, "UTC")


@pytest.mark.parametrize(
    ("abbreviation", "zones"),
    [
        ("PST", ("America/Los_Angeles", "Asia/Manila")),
        ("cet", ("Europe/Berlin",)),
        ("EST", ("America/New_York",)),
        ("IST", ("Asia/Kolkata", "Asia/Jerusalem")),
        ("CST", ("America/Chicago", "Asia/Shanghai")),
        ("BST", ("Europe/London",)),
    ],
)
def test_an_abbreviation_is_refused_with_the_zones_that_it_may_mean(
    abbreviation: str, zones: tuple[str, ...]
) -> None:
    for text in ("09:00", "tomorrow 9am", "2027-03-05 09:00", "next tuesday"):
        with pytest.raises(InvalidInput) as refused:
            parse_time(f"{text} {abbreviation}", NOW, "UTC")
        for zone in zones:
            assert zone in refused.value.remedy
            assert parse_time(f"{text} {zone}", NOW, "UTC")


def test_an_abbreviation_is_understood_if_the_readers_own_clocks_show_it_then() -> None:
    assert parse_time("2027-03-05 09:00 CET", NOW, BERLIN) == utc("2027-03-05 08:00")
    assert parse_time("2027-07-05 09:00 CEST", NOW, BERLIN) == utc("2027-07-05 07:00")
    with pytest.raises(InvalidInput):
        parse_time("2027-07-05 09:00 CET", NOW, BERLIN)


@pytest.mark.parametrize("word", ["noon", "fri", "nov", "later", "xyz", "am"])
def test_other_words_are_no_abbreviations(word: str) -> None:
    assert zones_showing(word) == []


def test_an_abbreviation_as_a_zone_is_refused_with_the_zones_that_it_may_mean() -> None:
    with pytest.raises(InvalidInput, match="PST") as refused:
        zone_named("PST")
    assert "America/Los_Angeles" in refused.value.remedy


LEGACY = [
    "EST",
    "MST",
    "HST",
    "CET",
    "EET",
    "WET",
    "MET",
    "EST5EDT",
    "CST6CDT",
    "MST7MDT",
    "PST8PDT",
]


@pytest.mark.parametrize("name", LEGACY)
def test_a_name_of_the_zone_database_that_is_an_abbreviation_is_refused_with_a_place(
    name: str,
) -> None:
    with pytest.raises(InvalidInput, match="not the time zone of a place") as refused:
        given_zone(name, where="site.zone")
    assert refused.value.where == "site.zone"
    place = refused.value.remedy.split()[1]
    assert given_zone(place) == zone_named(place)


@pytest.mark.parametrize("name", ["/etc/localtime", "EST5ED", "Factori", "mst7mdt", "PST8PDY"])
def test_a_zone_that_is_proposed_is_taken(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        given_zone(name)
    for word in refused.value.remedy.rstrip("?").split():
        if "/" in word or word in available_timezones():
            given_zone(word)


def test_no_name_without_a_place_is_left() -> None:
    """What is left are places, countries and UTC, whose clocks are what their names say."""
    named = {name for name in available_timezones() if name.upper() == name and "/" not in name}
    for name in named - {"UTC", "GMT", "UCT", "GMT0", "GMT+0", "GMT-0", "PRC", "ROC", "ROK", "GB", "NZ",
                         "NZ-CHAT", "W-SU"}:  # fmt: skip
        with pytest.raises(InvalidInput):
            given_zone(name)


@pytest.mark.parametrize(
    ("offset", "hours"), [("GMT+2", 2), ("UTC-3", -3), ("+02:00", 2), ("utc+14", 14), ("-0500", -5)]
)
def test_an_offset_as_a_zone_is_refused_with_the_zone_that_has_it_and_not_its_opposite(
    offset: str, hours: int
) -> None:
    with pytest.raises(InvalidInput, match="unknown time zone") as refused:
        zone_named(offset)
    named = zone_named(refused.value.remedy.split()[1])
    assert parse_time("2027-03-01 12:00", NOW, named) == NOW + (2 - hours) * 3_600


@pytest.mark.parametrize("offset", ["UTC+5:30", "+0545", "+99"])
def test_an_offset_that_no_zone_has_by_name_names_no_zone_of_another(offset: str) -> None:
    with pytest.raises(InvalidInput, match="unknown time zone") as refused:
        zone_named(offset)
    assert "Etc/" not in refused.value.remedy


@given(
    st.integers(0, LATEST),
    st.sampled_from(
        ["UTC", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo", "Europe/Berlin"]
    ),
    st.sampled_from(["Pacific/Auckland", "America/Los_Angeles", "Europe/Berlin"]),
)
def test_a_time_in_a_text_is_the_same_moment_on_the_readers_clocks(
    time_s: int, theirs: str, ours: str
) -> None:
    told = format_time(time_s, theirs)
    assert parse_time(told, 0, "UTC") == time_s
    text = f"it is closed between {told} and then; rule night"
    shown = in_zone(text, ZoneInfo(ours))
    assert shown == f"it is closed between {format_time(time_s, ours)} and then; rule night"
    assert in_zone(shown, ZoneInfo(ours)) == shown


@given(st.text() | st.text(alphabet="Mon 2027-30:1CET(UT+)/,"))
def test_a_text_without_times_stays_as_it_is(text: str) -> None:
    assert in_zone(text, BERLIN) == text or "(UTC" in text
    strange = f"Mon 9999-99-99 25:61:61 {text[:5]} (UTC+99:99)"
    assert in_zone(strange, BERLIN) == strange


@pytest.mark.parametrize("text", ["1,5h", "1h 1,5m"])
def test_a_decimal_comma_is_refused_with_the_point_that_works(text: str) -> None:
    with pytest.raises(InvalidInput, match="decimal point"):
        parse_duration(text)
    assert parse_duration(text.replace(",", ".")) in (5_400, 3_690)
