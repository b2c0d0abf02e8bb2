"""Rules against python-dateutil; windows against local clocks read minute by minute."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from kalends.calendars import Recurrence, Windows
from kalends.calendars.recurrence.windows import CHUNK_S
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval
from kalends.core.local_clocks import instant
from kalends.core.repeat import WEEKDAYS, parse_repeat

BERLIN = ZoneInfo("Europe/Berlin")
LOS_ANGELES = ZoneInfo("America/Los_Angeles")
ZONES = (BERLIN, LOS_ANGELES)
# Both clock changes of each zone in 2026, as local days.
CHANGES = {
    BERLIN: (date(2026, 3, 29), date(2026, 10, 25)),
    LOS_ANGELES: (date(2026, 3, 8), date(2026, 11, 1)),
}


def numbers(name: str, values: list[int]) -> st.SearchStrategy[str]:
    chosen = st.lists(st.sampled_from(values), min_size=1, max_size=4, unique=True)
    return st.just("") | chosen.map(lambda found: f";{name}={','.join(map(str, found))}")


@st.composite
def rules(draw: st.DrawFn) -> str:
    """Rules of all frequencies and parts; some are refused."""
    frequency = draw(st.sampled_from(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]))
    ranks = ["1", "2", "5", "-1", "-2"] if frequency in ("MONTHLY", "YEARLY") else [""]
    prefix = st.sampled_from(ranks) if draw(st.booleans()) else st.just("")
    # dateutil takes plain and numbered weekdays of one rule as "both", where the RFC means "either".
    weekdays = draw(st.lists(st.sampled_from(WEEKDAYS), max_size=4, unique=True))
    ranked = [draw(prefix) + weekday for weekday in weekdays]
    return (
        f"FREQ={frequency}"
        + draw(st.just("") | st.integers(1, 5).map(lambda n: f";INTERVAL={n}"))
        + (f";BYDAY={','.join(ranked)}" if ranked else "")
        + draw(numbers("BYMONTH", list(range(1, 13))))
        + draw(numbers("BYMONTHDAY", [1, 2, 13, 28, 29, 30, 31, -1, -2, -31]))
        + draw(numbers("BYYEARDAY", [1, 2, 59, 60, 200, 365, 366, -1, -366]))
        + draw(numbers("BYWEEKNO", [1, 2, 20, 52, 53, -1]))
        + draw(numbers("BYHOUR", [0, 7, 12, 23]))
        + draw(numbers("BYMINUTE", [0, 30]))
        + draw(numbers("BYSETPOS", [1, 2, -1, -2]))
        + draw(st.just("") | st.sampled_from(WEEKDAYS).map(lambda day: f";WKST={day}"))
    )


@given(
    rules(),
    st.dates(date(2023, 1, 1), date(2026, 12, 31)),
    st.integers(-30, 500),
    st.integers(0, 800),
)
@example("FREQ=YEARLY;BYDAY=MO;BYWEEKNO=1,53,-1;WKST=SU", date(2023, 12, 31), 0, 800)
@example("FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=29;INTERVAL=1", date(2023, 1, 1), 0, 2000)
@example("FREQ=DAILY;INTERVAL=3;BYMONTHDAY=-1", date(2024, 1, 1), 400, 800)
@settings(max_examples=100)
def test_a_rule_names_the_days_that_dateutil_names(
    text: str, anchor: date, offset_days: int, length_days: int
) -> None:
    try:
        rule = parse_repeat(text)
    except InvalidInput:
        assume(False)
    first = anchor + timedelta(offset_days)
    if "WEEKLY" in text and "BYSETPOS" in text:
        # dateutil counts positions of the first week from the anchor, the RFC from the week's start.
        first = max(first, anchor + timedelta(7))
    last = first + timedelta(length_days)
    found = list(rule.occurrences(anchor, time(8, 15), first, last))
    full = text + ("" if "BYHOUR" in text else ";BYHOUR=8")
    full += ("" if "BYMINUTE" in text else ";BYMINUTE=15") + ";BYSECOND=0"
    # dateutil stops at the first match after UNTIL; without one it would search to the year 9999.
    after = last + timedelta(1)
    assume(any(rule.occurrences(anchor, time(8, 15), after, after + timedelta(800))))
    ends = datetime.combine(last + timedelta(1), time())
    theirs = rrulestr(
        f"{full};UNTIL={ends:%Y%m%dT%H%M%S}", dtstart=datetime.combine(anchor, time())
    )
    assert found == [each for each in theirs if first <= each.date() <= last]


def first_showing(local: datetime, zone: ZoneInfo) -> int:
    """The definition, minute by minute: the first instant that shows `local` or later."""
    time_s = int(local.replace(tzinfo=UTC).timestamp()) - 16 * 3600
    while datetime.fromtimestamp(time_s, zone).replace(tzinfo=None) < local:
        time_s += 60
    return time_s


@pytest.mark.parametrize(
    "zone", [*ZONES, ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Asia/Kolkata")]
)
@given(
    day=st.dates(date(2026, 1, 1), date(2026, 12, 30)) | st.sampled_from(sum(CHANGES.values(), ())),
    minute=st.integers(0, 24 * 60 - 1) | st.integers(60, 240),
)
@settings(max_examples=30)
def test_a_local_time_is_the_first_instant_that_shows_it_or_a_later_one(
    zone: ZoneInfo, day: date, minute: int
) -> None:
    local = datetime.combine(day, time()) + timedelta(minutes=minute)
    assert instant(local, zone) == first_showing(local, zone)


def test_a_whole_skipped_day_begins_and_ends_at_the_change() -> None:
    apia = ZoneInfo("Pacific/Apia")
    skipped = datetime(2011, 12, 30, 10, 17)
    assert instant(skipped, apia) == instant(datetime(2011, 12, 31), apia)
    windows = Recurrence("FREQ=DAILY", "08:00", 3600, "Pacific/Apia").windows(
        instant(datetime(2011, 12, 29), apia), instant(datetime(2012, 1, 1), apia)
    )
    shown = [datetime.fromtimestamp(window.start, apia).day for window in windows]
    assert shown == [29, 31]


@st.composite
def recurrences(draw: st.DrawFn, zone: ZoneInfo) -> Recurrence:
    days = draw(st.lists(st.sampled_from(WEEKDAYS), max_size=5, unique=True))
    return Recurrence(
        "FREQ=WEEKLY;BYDAY=" + ",".join(days) if days else "FREQ=DAILY",
        time(draw(st.integers(0, 23)), draw(st.sampled_from([0, 15, 30]))),
        60 * draw(st.integers(1, 180) | st.integers(1, 3000)),
        zone.key,
    )


def open_minutes(recurrence: Recurrence, zone: ZoneInfo, start: int, end: int) -> set[int]:
    """By the definition in the docstring, each local day's window cut into minutes."""
    weekdays = recurrence.rrule.partition("BYDAY=")[2]
    found: set[int] = set()
    for back in range(-4, (end - start) // 86_400 + 3):
        day = datetime.fromtimestamp(start, zone).date() + timedelta(back)
        if weekdays and WEEKDAYS[day.weekday()] not in weekdays.split(","):
            continue
        opens = datetime.combine(day, recurrence.start)
        closes = opens + timedelta(seconds=recurrence.duration_s)
        minutes = range(first_showing(opens, zone), first_showing(closes, zone), 60)
        found.update(minute for minute in minutes if start <= minute < end)
    return found


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("change", [0, 1])
@given(data=st.data())
@settings(max_examples=12)
def test_the_union_of_recurrences_is_what_local_clocks_say_across_both_clock_changes(
    zone: ZoneInfo, change: int, data: st.DataObject
) -> None:
    several = data.draw(st.lists(recurrences(zone), max_size=3))
    changed = int(datetime.combine(CHANGES[zone][change], time(), UTC).timestamp())
    start = changed - 60 * data.draw(st.integers(0, 2880))
    end = changed + 60 * data.draw(st.integers(1, 4320))
    windows = Windows(several)
    between = windows.between(start, end)
    minutes = {minute for window in between for minute in range(*window, 60)}
    assert minutes == set().union(*(open_minutes(each, zone, start, end) for each in several))
    assert all(one.end < other.start for one, other in pairwise(between))
    assert windows.cover(start, end) == (len(minutes) == (end - start) // 60)


@given(st.integers(0, 40 * CHUNK_S), st.lists(st.integers(1, CHUNK_S), min_size=1, max_size=8))
@settings(max_examples=50)
def test_windows_asked_for_piece_by_piece_are_those_asked_for_at_once(
    start: int, lengths_s: list[int]
) -> None:
    recurrence = Recurrence("FREQ=WEEKLY;BYDAY=FR,SA", "20:00", 30 * 3600, "Europe/Berlin")
    borders = [start]
    for length_s in lengths_s:
        borders.append(borders[-1] + length_s)
    windows, pieces = Windows([recurrence]), list[Interval]()
    for opens, closes in pairwise(borders):
        for piece in windows.between(opens, closes):
            if pieces and pieces[-1].end == piece.start:
                piece = Interval(pieces.pop().start, piece.end)
            pieces.append(piece)
    assert pieces == Windows([recurrence]).between(borders[0], borders[-1])


@given(st.integers(CHUNK_S, 40 * CHUNK_S))
@settings(max_examples=30)
def test_a_window_is_told_whole_wherever_it_is_met(start: int) -> None:
    windows = Windows([Recurrence("FREQ=WEEKLY;BYDAY=FR,SA", "20:00", 30 * 3600, "Europe/Berlin")])
    for window in windows.between(start, start + 2 * CHUNK_S)[1:-1]:
        for at in (window.start, (window.start + window.end) // 2, window.end - 1):
            assert windows.whole(at) == window


def test_a_window_longer_than_a_chunk_is_told_whole_and_one_without_end_for_some_years() -> None:
    start = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp())
    long = Recurrence("FREQ=DAILY;COUNT=300", "00:00", 86_400, "UTC", first=date(2026, 3, 1))
    assert Windows([long]).whole(start + 150 * 86_400) == (start, start + 300 * 86_400)
    always = Windows([Recurrence("FREQ=DAILY", "00:00", 86_400, "UTC")]).whole(start)
    assert always.start < start < always.end


PART_NAMES = ["FREQ", "COUNT", "UNTIL", "INTERVAL", "BYDAY", "BYMONTHDAY", "BYSETPOS", "WKST", "X"]
PART_VALUES = [
    "DAILY",
    "SECONDLY",
    "1",
    "0",
    "-1",
    "99999",
    "MO",
    "9MO",
    "20260230",
    "é",
    "",
    "1,2",
]


@given(
    st.text(max_size=60)
    | st.lists(
        st.tuples(st.sampled_from(PART_NAMES), st.sampled_from(PART_VALUES)).map("=".join)
    ).map(";".join)
)
@settings(max_examples=300)
def test_any_text_is_a_recurrence_or_invalid_input(text: str) -> None:
    try:
        recurrence = Recurrence(text, "08:00", 3600, "Europe/Berlin", first="2026-01-01")
    except InvalidInput:
        return
    assert recurrence.describe()
    Windows([recurrence]).between(1_760_000_000, 1_770_000_000)
