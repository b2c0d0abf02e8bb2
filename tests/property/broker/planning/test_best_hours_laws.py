"""The best hours of a series against a slow twin: each start of the week and each occurrence by itself."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.broker.planning.best_hours import RepeatedRequest, best_hours
from kalends.core.errors import InvalidInput
from kalends.core.series import Occurrence, occurrences

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC")
RULES = (
    "FREQ=WEEKLY;COUNT=6",
    "FREQ=WEEKLY;INTERVAL=2;COUNT=5",
    "FREQ=WEEKLY;BYDAY=TU,TH;COUNT=7",
    "FREQ=DAILY;COUNT=8",
    "FREQ=MONTHLY;BYDAY=-1FR;COUNT=4",
)
HALF_HOUR = 1_800
MARCH = int(datetime(2027, 3, 1, tzinfo=ZoneInfo("UTC")).timestamp())


@st.composite
def wanted(draw: st.DrawFn) -> RepeatedRequest:
    opens = draw(st.integers(0, 40))
    closes = draw(st.integers(opens + 1, 48))
    return RepeatedRequest(
        rule=draw(st.sampled_from(RULES)), zone=draw(st.sampled_from(ZONES)),
        earliest=MARCH + draw(st.integers(0, 40 * 48)) * HALF_HOUR,
        length_s=draw(st.integers(1, 5)) * HALF_HOUR,
        opens_s=opens * HALF_HOUR, closes_s=closes * HALF_HOUR,
    )  # fmt: skip


def every_start(series: RepeatedRequest, taken: set[int]) -> dict[str, tuple[str, ...]]:
    """For each first start, by its name, the days on which the series does not fit."""
    zone, found = ZoneInfo(series.zone), {}
    weekly = series.rule.startswith("FREQ=WEEKLY") and "BYDAY" not in series.rule
    today = datetime.fromtimestamp(series.earliest, zone).date()
    last_s = 86_399 if series.closes_s == 86_400 else series.closes_s - series.length_s
    for number in range(8 if weekly else 2):
        for second in range(series.opens_s, last_s + 1, HALF_HOUR):
            first = datetime.combine(today, time()) + timedelta(days=number, seconds=second)
            whole = _occurrences(series, first, zone)
            if not whole or whole[0].start < series.earliest:
                continue
            days = tuple(each.name[:10] for each in whole if each.start // HALF_HOUR in taken)
            key = (first.weekday() if weekly else 0, first.time())
            found.setdefault(key, (whole[0].name, days))
    return dict(found.values())


def _occurrences(
    series: RepeatedRequest, first: datetime, zone: ZoneInfo
) -> tuple[Occurrence, ...]:
    try:
        return occurrences(series.rule, first, zone, series.length_s)
    except InvalidInput:
        return ()


@given(wanted(), st.sets(st.integers(0, 2_000), max_size=60), st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_the_best_hours_have_the_fewest_misses_of_all_starts(
    series: RepeatedRequest, taken_half_hours: set[int], count: int
) -> None:
    taken = {MARCH // HALF_HOUR + each for each in taken_half_hours}
    slow = every_start(series, taken)
    try:
        hours, _ = best_hours(series, lambda start: start // HALF_HOUR not in taken, count)
    except InvalidInput:
        assert not slow
        event("no hours")
        return
    ranked = sorted(slow, key=lambda name: (len(slow[name]), name))
    event(f"{len(slow[ranked[0]])} misses at best")
    effort.steps["best hours of a series"] += len(slow)
    length = int(series.rule.rpartition("=")[2])
    if not hours:
        event("nothing fits")
        assert {len(days) for days in slow.values()} == {length}
        return
    assert hours[0].first == ranked[0]
    assert all(each.fits for each in hours)
    assert [(len(each.missed), each.first) for each in hours] == sorted(
        (len(each.missed), each.first) for each in hours
    )
    for each in hours:
        inside = [name for name in slow if each.first <= name <= each.last]
        assert {slow[name] for name in inside} == {each.missed}
    worst = len(hours[-1].missed) if len(hours) == count else length
    better = {name for name in slow if len(slow[name]) < worst}
    assert all(any(each.first <= name <= each.last for each in hours) for name in better)
