"""The search for clashes against every window there is, and what it stands on against slow twins."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests import effort
from tests.property.calendars.clash_soak import compare
from tests.property.calendars.clash_twin import ZONES, Maker

from kalends.calendars.recurrence.clashes import first_clash
from kalends.calendars.recurrence.day_sets import DAYS, bits, text_of, within
from kalends.calendars.recurrence.zone_clocks import (
    DAY_S,
    FIRST_DAY,
    FIRST_S,
    YEARS,
    clock_of,
    stretch_at,
)
from kalends.core import limits

DAY_NUMBERS = st.sets(st.integers(0, 200), max_size=12)


@pytest.mark.parametrize("batch", range(effort.examples(1)))
def test_a_clash_is_found_to_the_second_where_every_window_is_compared(batch: int) -> None:
    tally: Counter[str] = Counter()
    seed = f"everyday/{batch}"
    assert compare(seed, 2_000, tally) == []
    assert tally["clashing"] > 100
    assert tally["never"] > 100
    effort.steps["pairs of recurrences compared with all their windows"] += tally["pairs"]


@given(st.integers(0, 10**9))
@settings(max_examples=effort.examples(25))
def test_what_both_open_is_one_window_of_each_and_nothing_is_open_before(seed: int) -> None:
    """Against `Recurrence.windows`, second by second at the edges of each window."""
    one, other = (spec.recurrence for spec in Maker(seed).batch(2))
    found = first_clash(one, other)
    begin = min(
        (DAY_S * (day.toordinal() - 719_163) for day in (one.first, other.first) if day), default=0
    )
    end = begin + 400 * DAY_S if found is None else found.end + 1
    begin = max(end - 800 * DAY_S, begin, 0)
    windows, others = one.windows(begin, end), other.windows(begin, end)
    meetings = [
        (max(window.start, each.start, begin), min(window.end, each.end, limits.TIME_S_MAX))
        for window in windows
        for each in others
        if window.overlaps(each) and max(window.start, each.start) < end
    ]
    first = min(meetings, key=lambda meeting: (meeting[0], -meeting[1]), default=None)
    assert first == (None if found is None else (max(found.start, begin), found.end))
    effort.steps["first clashes compared with windows"] += 1


@given(st.integers(0, 10**9), st.integers(0, 1_030), st.integers(1, 1_200))
@settings(max_examples=effort.examples(40), deadline=None)
def test_the_days_of_a_rule_are_its_occurrences(seed: int, years: int, length_days: int) -> None:
    (spec,) = Maker(seed).batch(1)
    recurrence = spec.recurrence
    first = max((recurrence.first or FIRST_DAY), FIRST_DAY + timedelta(366))
    if years % 2:
        first = min(first + timedelta(365 * years), FIRST_DAY + timedelta(DAYS - 1_300))
    last = first + timedelta(length_days)
    midnight = datetime.combine(FIRST_DAY, datetime.min.time())
    found = sorted(
        midnight + timedelta(days=day, seconds=at_s)
        for days, times_s in recurrence.starts()
        for day in range((first - FIRST_DAY).days, (last - FIRST_DAY).days + 1)
        if days >> day & 1
        for at_s in times_s
    )
    expected = [local for local in recurrence._starts(first, last) if local <= recurrence._until]
    assert found == expected
    effort.steps["spans of days compared with occurrences"] += 1


@given(DAY_NUMBERS, st.integers(-20, 20), st.integers(0, 20))
@example({0}, -1, 1)
def test_within_tells_the_days_with_another_near_by(days: set[int], low: int, length: int) -> None:
    near = within(sum(1 << day for day in days), low, low + length)
    expected = {n for n in range(250) if any(n + k in days for k in range(low, low + length + 1))}
    assert {n for n in range(250) if near >> n & 1} == expected


@given(DAY_NUMBERS)
def test_a_set_of_days_is_its_text(days: set[int]) -> None:
    number = sum(1 << day for day in days)
    assert {day for day, sign in enumerate(text_of(number)) if sign == "1"} == days
    assert bits(text_of(number)) == number


@pytest.mark.parametrize("zone", [*ZONES, "Pacific/Kiritimati", "America/Nuuk"])
def test_a_clock_shows_the_latest_time_it_has_shown(zone: str) -> None:
    """Every quarter of an hour around every change to 2103, and every ten days to 3000."""
    info, clock = ZoneInfo(zone), clock_of(ZoneInfo(zone))
    assert all(one.end == other.start for one, other in pairwise(clock))
    midnight = datetime.combine(FIRST_DAY, datetime.min.time())
    for stretch in clock:
        if not 0 <= stretch.start < 4_200_000_000:
            continue
        latest = midnight
        for time_s in range(stretch.start - DAY_S, min(stretch.start + DAY_S, stretch.end), 900):
            latest = max(latest, datetime.fromtimestamp(time_s, info).replace(tzinfo=None, fold=0))
            if time_s >= stretch.start:
                shown = midnight + timedelta(seconds=stretch.shown_at(time_s))
                # The clock stands at its last second, of which quarters of an hour show less.
                assert latest <= shown <= latest + timedelta(seconds=0 if stretch.runs else 899)
    for time_s in range(0, limits.TIME_S_MAX, 10 * DAY_S + 3_599):
        shown = datetime.fromtimestamp(time_s, info).replace(tzinfo=None, fold=0) - midnight
        stretch = clock[stretch_at(clock, time_s)]
        assert not stretch.runs or stretch.shown_at(time_s) == shown // timedelta(seconds=1)


@given(st.sampled_from(sorted(available_timezones())), st.integers(FIRST_S, 32_535_129_600))
@settings(max_examples=effort.examples(30), deadline=None)
def test_a_running_clock_shows_local_time_in_every_zone_there_is(zone: str, time_s: int) -> None:
    info = ZoneInfo(zone)
    clock = clock_of(info)
    assert clock[-1].end > limits.TIME_S_MAX
    assert YEARS[-1] == 3000
    stretch = clock[stretch_at(clock, time_s)]
    shown = datetime.fromtimestamp(time_s, info).replace(tzinfo=None, fold=0)
    latest = datetime.combine(FIRST_DAY, shown.min.time()) + timedelta(
        seconds=stretch.shown_at(time_s)
    )
    assert latest == shown if stretch.runs else latest >= shown
