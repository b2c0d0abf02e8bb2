"""The helpers of the language against slow twins: sets of seconds, and Python's own time zones."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort
from tests.agent_language_world import never

from kalends.agents.language.clocks import ZoneClock, clock_helpers, clock_minutes, date_of
from kalends.agents.language.helpers import slot_helpers
from kalends.agents.language.intervals import between, merged, overlap
from kalends.agents.language.meter import Meter

INTERVALS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 60)).map(sorted).map(tuple), max_size=12
)
ZONES = ("UTC", "Europe/Zurich", "America/Los_Angeles", "Asia/Kolkata", "Australia/Lord_Howe",
         "America/St_Johns", "Pacific/Apia", "Africa/Casablanca")  # fmt: skip
FIRST_S = int(datetime(2005, 1, 1, tzinfo=UTC).timestamp())
LAST_S = int(datetime(2035, 1, 1, tzinfo=UTC).timestamp())
_CHANGES: dict[str, list[list[int]]] = {}


def seconds(intervals: list[tuple[int, int]] | list[list[int]]) -> set[int]:
    return {second for start, end in intervals for second in range(start, end)}


@given(INTERVALS)
@settings(max_examples=effort.examples(300))
def test_merged_intervals_hold_the_same_moments_disjoint_and_in_order(
    intervals: list[tuple[int, int]],
) -> None:
    union = merged(intervals)
    assert seconds(union) == seconds(intervals)
    assert all(start < end for start, end in union)
    assert all(a[1] < b[0] for a, b in pairwise(union))
    effort.steps["agents' intervals"] += 1


@given(INTERVALS, st.integers(0, 60), st.integers(0, 60))
@settings(max_examples=effort.examples(300))
def test_gaps_are_the_moments_that_nothing_takes(
    intervals: list[tuple[int, int]], start: int, end: int
) -> None:
    free = between(intervals, start, end)
    assert seconds(free) == set(range(start, end)) - seconds(intervals)
    assert all(a < b for a, b in free)
    assert free == merged([(a, b) for a, b in free])
    effort.steps["agents' intervals"] += 1


@given(*[st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted)] * 2)
def test_intervals_overlap_where_they_share_a_moment(a: list[int], b: list[int]) -> None:
    assert overlap((a[0], a[1]), (b[0], b[1])) == bool(seconds([a]) & seconds([b]))


@given(st.integers(-719_162, 2_932_896))
@settings(max_examples=effort.examples(300))
def test_dates_are_those_of_the_calendar(days: int) -> None:
    day = date(1970, 1, 1) + timedelta(days=days)
    assert date_of(days) == (day.year, day.month, day.day)


def offset_s(zone: str, time_s: int) -> int:
    offset = datetime.fromtimestamp(time_s, ZoneInfo(zone)).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def table(zone: str) -> list[list[int]]:
    """By looking at every day, and then halving."""
    if zone in _CHANGES:
        return _CHANGES[zone]
    changes = [[FIRST_S, offset_s(zone, FIRST_S)]]
    for day_s in range(FIRST_S, LAST_S, 86_400):
        low_s, high_s = day_s, day_s + 86_400
        after = offset_s(zone, high_s)
        if after == changes[-1][1]:
            continue
        while high_s - low_s > 1:
            middle_s = (low_s + high_s) // 2
            low_s, high_s = (
                (low_s, middle_s) if offset_s(zone, middle_s) == after else (middle_s, high_s)
            )
        changes.append([high_s, after])
    _CHANGES[zone] = changes
    return changes


@given(st.sampled_from(ZONES), st.integers(FIRST_S, LAST_S), st.integers(-2, 2), st.booleans())
@settings(max_examples=effort.examples(400))
def test_clocks_show_what_python_s_time_zones_show(
    zone: str, time_s: int, nearby_s: int, at_a_change: bool
) -> None:
    changes = table(zone)
    if at_a_change:
        time_s = max(FIRST_S, changes[time_s % len(changes)][0] + nearby_s)
    local = datetime.fromtimestamp(time_s, ZoneInfo(zone))
    helpers = clock_helpers(Meter(1_000, never), {zone: changes})
    assert helpers["weekday"](time_s, zone) == local.weekday()
    assert helpers["time_of_day"](time_s, zone) == local.hour * 60 + local.minute
    assert helpers["local_date"](time_s, zone) == local.date().isoformat()
    effort.steps["agents' clocks"] += 1


def test_before_the_first_change_that_is_known_its_offset_holds() -> None:
    clock = ZoneClock.of([[100, 7], [200, 9]])
    offsets_s = [clock.local_s(time_s) - time_s for time_s in (0, 99, 100, 199, 200)]
    assert offsets_s == [7, 7, 7, 7, 9]


@given(st.integers(0, 24 * 60))
def test_a_time_of_day_is_read_as_it_is_written(minutes: int) -> None:
    assert clock_minutes(f"{minutes // 60:02}:{minutes % 60:02}") == minutes


SLOTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=12).map(
    lambda rows: [
        {"id": number, "common": common, "term": term} for number, (common, term) in enumerate(rows)
    ]
)
TERMS = st.lists(st.integers(0, 2).map(lambda term: {"term": term}), min_size=1, max_size=4)


def grouped_slowly(
    slots: list[dict[str, int]], terms: list[dict[str, int]]
) -> list[list[dict[str, int]]]:
    """For each common start in order of appearance, its slots; only whole ones, if there are any."""
    commons = list(dict.fromkeys(slot["common"] for slot in slots))
    groups = [[slot for slot in slots if slot["common"] == common] for common in commons]
    wanted = {term["term"] for term in terms}
    whole = [group for group in groups if {slot["term"] for slot in group} >= wanted]
    return whole or groups


@given(SLOTS, TERMS)
@settings(max_examples=effort.examples(300))
def test_slots_are_together_by_common_start_and_those_that_serve_all_terms_count(
    slots: list[dict[str, int]], terms: list[dict[str, int]]
) -> None:
    asked = {term["term"] for term in terms}
    slots = [slot for slot in slots if slot["term"] in asked]
    helpers = slot_helpers(Meter(10_000, never))
    groups = helpers["together"]({"slots": slots}, {"terms": terms})
    assert groups == grouped_slowly(slots, terms)
    assert helpers["ids"](groups) == [slot["id"] for group in groups for slot in group]
    assert helpers["ids"](slots) == [slot["id"] for slot in slots]
