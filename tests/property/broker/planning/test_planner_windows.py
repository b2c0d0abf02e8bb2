"""Windows of terms and alternatives: a slow twin tests every second by the clock; and their laws."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from tests import effort
from tests.planner_worlds import Free, Infos, free_steps, worlds
from tests.property.broker.planning.test_planner_weights import (
    WEIGHTS,
    all_ways,
    exact,
    weighted_requests,
)

from kalends.broker.planning.obstacles import fewest_to_move
from kalends.broker.planning.planner import plan
from kalends.broker.planning.window_wants import cut_to_windows
from kalends.calendars.recurrence.recurrence import Recurrence
from kalends.contract.messages import Want
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval
from kalends.core.permitted_starts import permitted_starts
from kalends.core.requests import (
    Alternative,
    Request,
    Term,
    WindowPreference,
    parts_of,
    span_of,
    term_interval,
)
from kalends.core.resources import ResourceInfo
from kalends.core.windows import Daily, TimeWindow

EVERYTHING = Interval(0, 1_000_000_000)

HOUR_S = 3_600
DAY_S = 24 * HOUR_S

intervals = st.builds(
    lambda start, length: Interval(start, start + length), st.integers(0, 45), st.integers(1, 25)
)
preferences = st.builds(WindowPreference, window=intervals, weight=WEIGHTS)


@st.composite
def windowed_requests(draw: st.DrawFn) -> Request:
    """Weighted requests with windows and preferences on some of their terms and alternatives."""

    def with_windows(part):
        return msgspec.structs.replace(
            part,
            windows=tuple(draw(st.just([]) | st.lists(intervals, max_size=3))),
            preferences=tuple(draw(st.just([]) | st.lists(preferences, max_size=2))),
        )

    made = draw(weighted_requests())
    return msgspec.structs.replace(
        made,
        alternatives=tuple(
            with_windows(msgspec.structs.replace(each, terms=tuple(map(with_windows, each.terms))))
            for each in made.alternatives
        ),
    )


def is_open(windows: tuple[TimeWindow, ...], second: int) -> bool:
    """Whether the clock shows, in that second, a time within one of the windows."""
    for window in windows:
        if not isinstance(window, Daily):
            if window[0] <= second < window[1]:
                return True
            continue
        shown = datetime.fromtimestamp(second, UTC).astimezone(ZoneInfo(window.zone))
        at, end = f"{shown:%H:%M}", window.end
        if window.start < end <= "24:00" and window.start <= at < end:
            return True
        if end < window.start and (at >= window.start or at < end):
            return True
    return False


def in_windows(request: Request, alternative: Alternative, t: int) -> bool:
    return all(
        not windows or all(is_open(windows, s) for s in range(*term_interval(request, term, t)))
        for term in alternative.terms
        for windows in (alternative.windows, term.windows)
    )


def worth_of_times(request: Request, alternative: Alternative, t: int) -> Fraction:
    total = Fraction(0)
    for part in parts_of(alternative):
        begin = term_interval(request, part, t).start if isinstance(part, Term) else t
        for each in part.preferences:
            total += exact(each.weight) * is_open((each.window,), begin)
    return total


def slow_best(request: Request, infos: Infos, free: Free) -> tuple[Fraction, int, int] | None:
    tried = []
    for number, alternative in enumerate(request.alternatives):
        begin_s, end_s = span_of(request, alternative)
        for t in range(request.not_before - begin_s, request.not_after - end_s + 1):
            effort.steps["starts of requests with windows"] += 1
            if in_windows(request, alternative, t):
                weights = [weight for _, weight in all_ways(request, number, infos, free, t)]
                if weights:
                    of_time = worth_of_times(request, alternative, t)
                    tried.append((-max(weights) - of_time, t, number))
    return min(tried, default=None)


def found_in(request: Request, infos: Infos, free: Free, count: int = 1):
    return [
        (made.weight, made.start, made.alternative, made.wants)
        for made in plan(request, infos, free, count=count)
    ]


@given(worlds(), windowed_requests())
@settings(max_examples=effort.examples(250), deadline=None)
def test_the_plan_is_the_best_of_trying_every_start_and_testing_windows_second_by_second(
    world: tuple[Infos, Free], request: Request
) -> None:
    infos, free = world
    best = slow_best(request, infos, free)
    plans = plan(request, infos, free)
    event("found" if plans else "none")
    if best is None:
        assert plans == []
    else:
        (made,) = plans
        assert (made.weight, made.start, made.alternative) == (float(-best[0]), *best[1:])


@given(worlds(), weighted_requests())
@settings(max_examples=effort.examples(100), deadline=None)
def test_a_window_over_everything_changes_nothing(
    world: tuple[Infos, Free], request: Request
) -> None:
    everywhere = msgspec.structs.replace(
        request,
        alternatives=tuple(
            msgspec.structs.replace(
                each,
                windows=(Daily("00:00", "24:00", "UTC"),),
                terms=tuple(
                    msgspec.structs.replace(term, windows=(EVERYTHING,)) for term in each.terms
                ),
            )
            for each in request.alternatives
        ),
    )
    everywhere.check()
    assert found_in(everywhere, *world, 3) == found_in(request, *world, 3)


@given(worlds(), windowed_requests(), st.integers(1, 24))
@settings(max_examples=effort.examples(100), deadline=None)
def test_a_window_that_is_split_in_two_that_touch_is_the_same(
    world: tuple[Infos, Free], request: Request, at: int
) -> None:
    def split(windows):
        for start, end in windows:
            if start < start + at < end:
                yield from (Interval(start + at, end), Interval(start, start + at))
            else:
                yield Interval(start, end)

    made = msgspec.structs.replace(
        request,
        alternatives=tuple(
            msgspec.structs.replace(
                each,
                windows=tuple(split(each.windows)),
                terms=tuple(
                    msgspec.structs.replace(term, windows=tuple(split(term.windows)))
                    for term in each.terms
                ),
            )
            for each in request.alternatives
        ),
    )
    assert found_in(made, *world, 2) == found_in(request, *world, 2)


@given(worlds(), windowed_requests())
@settings(max_examples=effort.examples(100), deadline=None)
def test_a_window_over_all_terms_is_the_same_on_their_alternative(
    world: tuple[Infos, Free], request: Request
) -> None:
    """The windows of an alternative hold for each of its terms, in addition to the term's own."""
    pushed = msgspec.structs.replace(
        request,
        alternatives=tuple(
            msgspec.structs.replace(
                each,
                windows=(),
                terms=tuple(
                    msgspec.structs.replace(term, windows=each.windows or term.windows)
                    for term in each.terms
                ),
            )
            for each in request.alternatives
        ),
    )
    assume(
        all(not (each.windows and t.windows) for each in request.alternatives for t in each.terms)
    )
    assert found_in(pushed, *world, 2) == found_in(request, *world, 2)


ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")
CLOCKS = st.builds(
    lambda hour, minute: f"{hour:02}:{minute:02}", st.integers(0, 23), st.sampled_from((0, 30))
)
daily_windows = (
    st.builds(Daily, CLOCKS, CLOCKS | st.just("24:00"), st.sampled_from(ZONES))
).filter(lambda window: window.start != window.end)
CALM = int(datetime(2026, 1, 12, tzinfo=UTC).timestamp())
"""A Monday with no clock change near, in any of the zones."""


@st.composite
def days(draw: st.DrawFn) -> tuple[Infos, Free, Request]:
    """A request with daily windows in a calendar of some days, in half hours."""
    infos, free = {}, {}
    for name in ("a/one", "a/two"):
        infos[name] = ResourceInfo(name=name, capacity=4, grain_s=1_800)
        free[name] = [
            (CALM + start * 1_800, CALM + end * 1_800, units)
            for start, end, units in draw(free_steps())
        ]
    windows = st.lists(daily_windows, max_size=2).map(tuple)
    terms = tuple(
        Term(
            resource=name,
            windows=draw(windows),
            offset_s=draw(st.sampled_from((0, 1_800))),
            preferences=tuple(
                draw(
                    st.lists(
                        st.builds(WindowPreference, window=daily_windows, weight=WEIGHTS),
                        max_size=1,
                    )
                )
            ),
        )
        for name in draw(st.sampled_from((("a/one",), ("a/one", "a/two"))))
    )
    request = Request(
        alternatives=(Alternative(terms=terms, windows=draw(windows)),),
        duration_s=draw(st.sampled_from((1_800, 3_600, 7_200))),
        not_before=CALM,
        not_after=CALM + 3 * DAY_S,
    )
    return infos, free, request


@given(days())
@settings(max_examples=effort.examples(60), deadline=None)
def test_shifting_all_by_a_day_shifts_the_answer(world: tuple[Infos, Free, Request]) -> None:
    infos, free, request = world
    later = {name: [(a + DAY_S, b + DAY_S, u) for a, b, u in free[name]] for name in free}
    shifted = msgspec.structs.replace(
        request, not_before=request.not_before + DAY_S, not_after=request.not_after + DAY_S
    )
    before, after = plan(request, infos, free), plan(shifted, infos, later)
    event("found" if before else "none")
    assert [(each.start + DAY_S, each.weight) for each in before] == [
        (each.start, each.weight) for each in after
    ]


CHANGES = [
    (int(datetime(2026, month, day, tzinfo=UTC).timestamp()), zone)
    for zone, month, day in (
        ("Europe/Berlin", 3, 28),
        ("Europe/Berlin", 10, 24),
        ("America/New_York", 3, 7),
        ("America/New_York", 10, 31),
        ("Australia/Lord_Howe", 4, 4),
        ("Australia/Lord_Howe", 10, 3),
        ("UTC", 6, 1),
    )
]


@given(st.sampled_from(CHANGES), CLOCKS, CLOCKS | st.just("24:00"), st.integers(1, 12))
@settings(max_examples=effort.examples(60), deadline=None)
def test_permitted_starts_over_a_clock_change_are_those_of_opening_hours(
    change: tuple[int, str], start: str, end: str, halves: int
) -> None:
    """The occurrences are, to the second, those of an owner's recurrence with the same times."""
    begin, zone = change
    assume(start != end)
    window = Daily(start, end, zone)
    clock = [int(each[:2]) * 60 + int(each[3:]) for each in (start, end)]
    length_s = (clock[1] - clock[0]) % 1_440 * 60
    until = begin + 3 * DAY_S
    opens = Recurrence("FREQ=DAILY", start, length_s or DAY_S, zone).windows(begin, until)
    request = Request(
        alternatives=(Alternative(terms=(Term(resource="a/one", windows=(window,)),)),),
        duration_s=halves * 1_800,
        not_before=begin,
        not_after=until,
    )
    found = permitted_starts(request, 0, begin, until)
    assert found is not None
    for t in range(begin, until - request.duration_s + 1, 900):
        inside = _within(opens, t, t + request.duration_s)
        assert inside == any(first <= t <= last for first, last in found)


def _within(opens: list[Interval], start: int, end: int) -> bool:
    """Whether some window, or several that touch, cover all of the time."""
    at = start
    for window in sorted(opens):
        if window.start <= at < window.end:
            at = window.end
    return at >= end


@given(days())
@settings(max_examples=effort.examples(60), deadline=None)
def test_obstacles_are_only_looked_for_at_permitted_starts(
    world: tuple[Infos, Free, Request],
) -> None:
    infos, free, request = world
    moves = fewest_to_move(request, infos, free, {})
    assert moves is None or in_windows(request, request.alternatives[0], moves.start)
    assert (moves is None) == (plan(request, infos, free) == [])


@given(days())
@settings(max_examples=effort.examples(60), deadline=None)
def test_wants_on_waiting_lists_have_every_stage_that_its_windows_allow_and_little_else(
    world: tuple[Infos, Free, Request],
) -> None:
    _, _, request = world
    (alternative,) = request.alternatives
    for term in alternative.terms:
        whole = Want(term.resource, request.not_before, request.not_after, 1)
        cut = cut_to_windows(request, (whole,))
        assert all(whole.start <= want.start < want.end <= whole.end for want in cut)
        possible = False
        for begin in range(whole.start, whole.end - request.duration_s + 1, 1_800):
            stage = range(begin, begin + request.duration_s, 60)
            sets = (alternative.windows, term.windows)
            if all(not each or all(is_open(each, s) for s in stage) for each in sets):
                possible = True
                assert any(
                    want.start <= begin and begin + request.duration_s <= want.end for want in cut
                )
        if possible:
            sets = [each for each in (alternative.windows, term.windows) if each]
            assert all(is_open(each, want.start) for want in cut for each in sets)


@given(days())
@settings(max_examples=effort.examples(60), deadline=None)
def test_a_request_is_refused_at_once_exactly_if_no_start_meets_its_windows(
    world: tuple[Infos, Free, Request],
) -> None:
    _, _, request = world
    (alternative,) = request.alternatives
    begin_s, end_s = span_of(request, alternative)
    last = request.not_after - end_s
    permitted = [
        t
        for t in range(request.not_before - begin_s, last + 1, 1_800)
        if all(
            not windows
            or all(is_open(windows, s) for s in range(*term_interval(request, term, t), 300))
            for term in alternative.terms
            for windows in (alternative.windows, term.windows)
        )
    ]
    if permitted:
        request.check()
    else:
        with pytest.raises(InvalidInput) as refused:
            request.check()
        assert ".windows" in refused.value.where
