"""Preferred times against a twin that looks at the clock in every minute."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval
from kalends.core.language import parse_alternatives
from kalends.core.language.preferences import (
    OPEN_WINDOW_S,
    Preference,
    expand,
    parse_preference,
    starts,
    understood,
)
from kalends.core.requests import Request

DAY_S = 86_400
MINUTE_S = 60

CHANGES = {
    "Europe/Berlin": (1_774_746_000, 1_792_890_000),
    "America/New_York": (1_772_953_200, 1_793_512_800),
    "Australia/Lord_Howe": (1_775_314_800, 1_790_998_200),
    "Africa/Casablanca": (1_771_120_800, 1_774_144_800),
    "Asia/Beirut": (1_774_735_200, 1_792_875_600),
    "Pacific/Apia": (1_325_239_200,),  # A whole day was skipped.
    "Asia/Kathmandu": (1_800_000_000,),
}
"""Instants near which the clocks of each zone change."""

WORDS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
TIMES = {"mornings": (360, 720), "afternoon": (720, 1080), "evenings": (1080, 1320),
         "night": (1320, 360)}  # fmt: skip


@st.composite
def phrases(draw: st.DrawFn, near: date) -> tuple[str, tuple[str, ...]]:
    """A phrase, and its parts for the twin."""
    kind = draw(st.sampled_from(["", "weekdays", "weekends", "range", "list", "date"]))
    days: str = kind
    if kind == "range":
        days = "-".join(draw(st.lists(st.sampled_from(WORDS), min_size=2, max_size=2)))
    elif kind == "list":
        days = ",".join(draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4)))
    elif kind == "date":
        days = (near + timedelta(draw(st.integers(-2, 3)))).isoformat()
    times = draw(st.sampled_from(["", "clock", *TIMES]))
    if times == "clock":
        opens, closes = draw(st.lists(st.integers(0, 1439), min_size=2, max_size=2, unique=True))
        times = f"{opens // 60:02}:{opens % 60:02}-{closes // 60:02}:{closes % 60:02}"
    if not days and not times:
        times = "mornings"
    return " ".join(draw(st.permutations([word for word in (days, times) if word]))), (days, times)


def on_day(day: date, said: str) -> bool:
    if not said:
        return True
    if said == "weekdays":
        return day.weekday() < 5
    if said == "weekends":
        return day.weekday() >= 5
    if said[0].isdigit():
        return day.isoformat() == said
    if "-" in said:
        first, last = (WORDS.index(word) for word in said.split("-"))
        at = first
        while at != last:
            if at == day.weekday():
                return True
            at = (at + 1) % 7
        return day.weekday() == last
    return WORDS[day.weekday()] in said.split(",")


def preferred(time_s: int, zone: ZoneInfo, days: str, times: str) -> bool:
    """What the clock on the wall says in this minute, read word by word."""
    local = datetime.fromtimestamp(time_s, zone)
    minute = local.hour * 60 + local.minute
    today, yesterday = local.date(), local.date() - timedelta(1)
    if not times:
        return on_day(today, days)
    if times in TIMES:
        opens, closes = TIMES[times]
    else:
        a, b, c, d = map(int, re.split("[:-]", times))
        opens, closes = a * 60 + b, c * 60 + d
    if opens < closes:
        return on_day(today, days) and opens <= minute < closes
    return (on_day(today, days) and minute >= opens) or (
        on_day(yesterday, days) and minute < closes
    )


def request(start: int, end: int, *, duration_s: int = 3_600) -> Request:
    return Request(
        alternatives=parse_alternatives("a/x"), duration_s=duration_s,
        not_before=start, not_after=end,
    )  # fmt: skip


@settings(max_examples=effort.examples(150), deadline=None)
@given(st.data())
def test_the_weights_of_every_minute_are_those_that_the_clock_on_the_wall_gives(
    data: st.DataObject,
) -> None:
    name = data.draw(st.sampled_from(sorted(CHANGES)))
    zone = ZoneInfo(name)
    change = data.draw(st.sampled_from(CHANGES[name])) // MINUTE_S * MINUTE_S
    start = change + MINUTE_S * data.draw(st.integers(-3 * 1440, 1440))
    length = MINUTE_S * data.draw(st.integers(1, 4 * 1440))
    near = datetime.fromtimestamp(change, zone).date()
    said = data.draw(st.lists(phrases(near), min_size=1, max_size=3))
    weights = [data.draw(st.sampled_from(["", "+2", "-1.5", "+0.25"])) for _ in said]
    preferences = [
        parse_preference(f"{phrase} {weight}", now_s=start, zone=zone)
        for (phrase, _), weight in zip(said, weights, strict=True)
    ]
    wanted = request(start, start + length + 3_600 - 1)
    windows = expand(preferences, wanted)
    for minute in range(start, start + length, MINUTE_S):
        slow = sum(
            float(weight or 1)
            for (_, parts), weight in zip(said, weights, strict=True)
            if preferred(minute, zone, *parts)
        )
        assert slow == sum(w.weight for w in windows if w.start <= minute < w.end), minute
        effort.steps["preferred minutes"] += 1


@settings(max_examples=effort.examples(100), deadline=None)
@given(st.data())
def test_windows_are_sorted_disjoint_within_the_window_and_do_not_touch(
    data: st.DataObject,
) -> None:
    name = data.draw(st.sampled_from(sorted(CHANGES)))
    start = data.draw(st.sampled_from(CHANGES[name])) - data.draw(st.integers(0, 9 * DAY_S))
    end = start + data.draw(st.integers(1, 20 * DAY_S))
    near = datetime.fromtimestamp(start, ZoneInfo(name)).date()
    phrase, _ = data.draw(phrases(near))
    preference = parse_preference(phrase, now_s=start, zone=ZoneInfo(name))
    windows = preference.windows(start, end)
    edges = [edge for window in windows for edge in window]
    assert edges == sorted(set(edges))
    assert all(start <= edge <= end for edge in edges)


@settings(max_examples=effort.examples(300), deadline=None)
@given(st.text(alphabet="monthufriwekdays 0123456789:-+.,beforg", max_size=30))
@example("before ")
@example("mon-")
@example("-")
@example(",")
@example("2026-02-30")
@example("24:00-25:00")
@example("09:00-09:00")
@example("mornings +99999999")
def test_any_text_is_understood_or_refused_in_words(text: str) -> None:
    preference, refusal = _understood_or_refused(text)
    if preference is not None:
        wanted = request(1_800_000_000, 1_800_000_000 + 30 * DAY_S)
        assert understood(preference, wanted)
        assert all(w.start < w.end for w in expand([preference], wanted))
    else:
        assert refusal is not None
        assert refusal.remedy
        assert refusal.where == "prefer"


def _understood_or_refused(text: str) -> tuple[Preference | None, InvalidInput | None]:
    try:
        return parse_preference(text, now_s=1_800_000_000, zone=ZoneInfo("Europe/Berlin")), None
    except InvalidInput as error:
        return None, error


def read(text: str, zone: str = "Europe/Berlin") -> Preference:
    # Sat 2026-11-21 12:00 in Berlin.
    return parse_preference(text, now_s=1_795_258_800, zone=ZoneInfo(zone))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mornings", "every day 06:00-12:00 (Europe/Berlin)"),
        ("Afternoons +2", "every day 12:00-18:00 (Europe/Berlin)"),
        ("nights", "every day 22:00-06:00 (Europe/Berlin)"),
        ("weekdays", "Mon-Fri (Europe/Berlin)"),
        ("weekend evenings", "Sat-Sun 18:00-22:00 (Europe/Berlin)"),
        ("mon-thu 09:00-12:00", "Mon-Thu 09:00-12:00 (Europe/Berlin)"),
        ("fri-mon", "Mon,Fri-Sun (Europe/Berlin)"),
        ("Fridays", "Fri (Europe/Berlin)"),
        ("18:00-24:00", "every day 18:00-24:00 (Europe/Berlin)"),
        ("2026-11-27", "Fri 2026-11-27 (Europe/Berlin)"),
        ("today night", "Sat 2026-11-21 22:00-06:00 (Europe/Berlin)"),
        ("tomorrow afternoon", "Sun 2026-11-22 12:00-18:00 (Europe/Berlin)"),
        ("before 2026-12-01", "before Tue 2026-12-01 00:00:00 CET (UTC+01:00)"),
        ("after mon 09:00", "from Mon 2026-11-23 09:00:00 CET (UTC+01:00)"),
        (
            "mon 09:00 .. wed 12:00",
            "from Mon 2026-11-23 09:00:00 CET (UTC+01:00) to Wed 2026-11-25 12:00:00 CET (UTC+01:00)",
        ),
    ],
)  # fmt: skip
def test_a_phrase_is_told_back_in_full(text: str, told: str) -> None:
    assert read(text).describe() == told


@pytest.mark.parametrize(
    ("text", "weight"),
    [("fri", 1), ("fri +3", 3), ("fri -0.5", -0.5), ("2026-11-27 -1", -1), ("before mon +2", 2)],
)
def test_a_weight_may_follow_and_is_1_without(text: str, weight: float) -> None:
    assert read(text).weight == weight


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("mornigns", "did you mean mornings?"),
        ("fri 2", "give a weight its sign: fri +2"),
        ("fri +0", "leave it out, or give a weight"),
        ("2026-02-30", "check the day"),
        ("25:00-26:00", "write 09:00-12:00"),
        ("09:00-09:00", "leave it out to mean the whole day"),
        ("mon tue", "give two preferences, or a list of days: mon,wed,fri 09:00-12:00"),
        ("mornings nights", "give two preferences, or a list of days: mon,wed,fri 09:00-12:00"),
    ],
)
def test_what_is_not_understood_is_answered_with_what_to_write(text: str, remedy: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(text)
    assert caught.value.remedy == remedy


def test_more_windows_than_a_request_may_have_are_refused_by_name() -> None:
    two_years = request(1_795_258_800, 1_795_258_800 + 730 * DAY_S)
    with pytest.raises(InvalidInput, match="every day 06:00-12:00") as caught:
        expand([read("mornings")], two_years)
    assert str(limits.PREFERENCES_MAX) in caught.value.detail
    weekly = expand([read("fri"), read("weekends -1")], two_years)
    assert 200 < len(weekly) <= limits.PREFERENCES_MAX


def test_a_window_without_end_is_spelled_out_for_eight_weeks_and_says_so() -> None:
    wanted = request(1_795_258_800, 0)
    assert starts(wanted) == Interval(1_795_258_800, 1_795_258_800 + OPEN_WINDOW_S)
    assert len(expand([read("fri")], wanted)) == 8
    assert "within the next 8 weeks" in understood(read("fri"), wanted)
    closed = request(1_795_258_800, 1_795_258_800 + 9 * DAY_S)
    assert "within the next 8 weeks" not in understood(read("fri"), closed)


def test_what_can_never_count_says_so() -> None:
    assert understood(read("2026-10-01"), request(1_795_258_800, 0)).endswith(
        "never in this window"
    )


def test_the_last_start_that_the_window_leaves_can_be_preferred() -> None:
    fixed = request(1_795_258_800, 1_795_258_800 + 3_600)
    [window] = expand([read("sat")], fixed)
    assert (window.start, window.end) == (1_795_258_800, 1_795_258_801)


def test_starts_of_stages_and_alternatives_are_those_of_the_widest() -> None:
    wanted = Request(
        alternatives=parse_alternatives("a/x @-10m + a/y | a/z for 30m"), duration_s=3_600,
        not_before=100_000, not_after=200_000,
    )  # fmt: skip
    assert starts(wanted) == Interval(100_000, 200_000 - 1_800 + 1)


def phrases_of_the_document() -> list[str]:
    document = Path(__file__).parents[3] / "docs" / "waiting.md"
    _, _, table = document.read_text("utf-8").partition("| phrase |")
    rows = table.partition("\n\n")[0].splitlines()[2:]
    return [phrase for row in rows for phrase in re.findall(r"`([^`]+)`", row)]


@pytest.mark.parametrize("phrase", phrases_of_the_document())
def test_every_phrase_of_the_document_is_understood(phrase: str) -> None:
    assert read(phrase).windows(1_795_258_800, 1_795_258_800 + 30 * DAY_S)


def test_the_document_has_phrases_of_every_form() -> None:
    assert len(phrases_of_the_document()) >= 17
