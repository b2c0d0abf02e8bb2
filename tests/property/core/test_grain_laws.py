"""The grain counts from each local midnight: compared with a twin that looks at every minute of its clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.core.grains import Grain, grain_of
from kalends.core.local_clocks import first_shown, shown_by
from kalends.core.resources import ResourceInfo

ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu", "America/St_Johns",
    "Australia/Lord_Howe", "America/Havana", "Africa/Casablanca", "Pacific/Apia",
)  # fmt: skip
GRAINS = (60, 900, 1_800, 3_600, 7_200, 4 * 3_600, 12 * 3_600, 86_400)
MINUTE = 60

grains = st.builds(
    lambda zone, grain_s: grain_of(ResourceInfo(name="a/b", grain_s=grain_s, zone=zone)),
    st.sampled_from(ZONES),
    st.sampled_from(GRAINS),
)
near_changes = st.builds(
    lambda day, minute: int((datetime(2027, *day, tzinfo=UTC)).timestamp()) + minute * MINUTE,
    st.sampled_from(
        [(3, 14), (3, 28), (4, 4), (10, 3), (10, 31), (11, 7), (2, 7), (3, 7), (6, 15)]
    ),
    st.integers(-2 * 1_440, 2 * 1_440),
)


def minutes_on_grain(zone: ZoneInfo, grain_s: int, first: int, last: int) -> list[int]:
    """The twin: each minute at which the clock comes to a multiple of the grain for the first time.

    Where the grain divides what clocks change by, also those that are shown again.
    """
    found = []
    begin = datetime.fromtimestamp(first - 2 * 86_400, zone).replace(tzinfo=None)
    latest = begin
    for time_s in range(first - 2 * 86_400, last + 1, MINUTE):
        shown = datetime.fromtimestamp(time_s, zone).replace(tzinfo=None)
        if 900 % grain_s == 0 or shown > latest or time_s == first - 2 * 86_400:
            skipped = [
                latest + timedelta(minutes=number)
                for number in range(1, int((shown - latest).total_seconds()) // MINUTE)
            ]
            times = [*skipped, shown]
        else:
            times = []
        if any(
            int((each - each.replace(hour=0, minute=0)).total_seconds()) % grain_s == 0
            for each in times
        ):
            found.append(time_s)
        latest = max(latest, shown)
    return [each for each in found if each >= first]


@given(st.sampled_from(ZONES), st.sampled_from((900, 12 * 3_600, 86_400)), near_changes)
@settings(max_examples=effort.examples(40), deadline=None)
def test_times_on_the_grain_are_multiples_of_it_since_the_local_midnight(
    name: str, grain_s: int, near: int
) -> None:
    zone = ZoneInfo(name)
    grain = grain_of(ResourceInfo(name="a/b", grain_s=grain_s, zone=name))
    twin = minutes_on_grain(zone, grain_s, near, near + 86_400)
    found = []
    at = grain.ceil(near)
    while at <= near + 86_400:
        found.append(at)
        at = grain.ceil(at + 1)
    assert found == twin
    effort.steps["times on a grain"] += len(twin)


@given(grains, near_changes, st.integers(0, 86_400))
@settings(max_examples=effort.examples(200), deadline=None)
def test_floor_and_ceil_are_the_neighbours_on_the_grain(grain: Grain, near: int, more: int) -> None:
    time_s = near + more
    before, after = grain.floor(time_s), grain.ceil(time_s)
    assert before <= time_s <= after
    assert grain.has(before)
    assert grain.has(after)
    assert (before == after) == grain.has(time_s)
    if before < after:
        assert grain.ceil(before + 1) == after


@given(grains, near_changes, st.integers(1, 10))
@settings(max_examples=effort.examples(200), deadline=None)
def test_a_length_of_whole_grains_ends_on_the_grain_and_is_told_as_it_was_asked(
    grain: Grain, near: int, count: int
) -> None:
    start, length_s = grain.ceil(near), count * grain.seconds
    end = grain.end_of(start, length_s)
    assert grain.has(end)
    if grain.zone is None:
        assert end - start == length_s
    elif grain.seconds >= 4 * 3_600:
        assert grain.length_s(start, end) == length_s
        assert abs(end - start - length_s) <= 3_600 or grain.zone.key == "Pacific/Apia"


@given(st.sampled_from(ZONES), near_changes)
@settings(max_examples=effort.examples(200), deadline=None)
def test_what_a_clock_has_shown_never_goes_back_and_is_first_shown_by_then(
    name: str, near: int
) -> None:
    zone = ZoneInfo(name)
    before, now = shown_by(near - 1, zone), shown_by(near, zone)
    assert before <= now
    assert first_shown(now, zone) <= near
    assert first_shown(now + 1, zone) > near
