"""The planner against a slow obvious twin: every start of the window, every way to pick resources."""

from __future__ import annotations

import sys
from functools import reduce
from itertools import combinations, pairwise

from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.planner_worlds import (
    END,
    Free,
    Infos,
    assert_stands,
    free_at,
    free_steps,
    requests,
    slow_starts,
    worlds,
)

from kalends.broker.planning.explanations import explain
from kalends.broker.planning.planner import plan
from kalends.broker.planning.start_ranges import added, levels, most_together, ranges
from kalends.core.progressions import Beat
from kalends.core.requests import Request
from kalends.core.spans import Stage, in_all, intersection


@given(worlds(), requests(), st.integers(1, 4), st.sets(st.integers(0, END), max_size=6))
@settings(max_examples=400, deadline=None)
def test_plans_start_where_trying_every_second_and_every_choice_does(
    world: tuple[Infos, Free], request: Request, count: int, excluded: set[int]
) -> None:
    infos, free = world
    plans = plan(request, infos, free, count=count, excluded={(0, start) for start in excluded})
    event(f"{min(len(plans), 2)} plans")
    assert [made.start for made in plans] == slow_starts(request, infos, free, count, excluded)
    for made in plans:
        assert_stands(request, infos, free, made)


@given(worlds(), requests())
@settings(max_examples=200, deadline=None)
def test_without_a_plan_there_is_always_a_refusal_that_says_where(
    world: tuple[Infos, Free], request: Request
) -> None:
    infos, free = world
    if plan(request, infos, free):
        return
    refusals = explain(request, infos, free)
    assert refusals
    assert all(refusal.where and refusal.code and refusal.detail for refusal in refusals)


beats = st.integers(1, 60).flatmap(
    lambda modulus: st.builds(Beat, st.just(modulus), st.integers(0, modulus - 1))
)


@given(beats, beats)
def test_two_beats_meet_at_exactly_the_times_of_their_joint_beat(one: Beat, other: Beat) -> None:
    times = range(2 * one.modulus * other.modulus)
    meeting = [time_s for time_s in times if one.hits(time_s) and other.hits(time_s)]
    joint = one.both(other)
    assert meeting == ([] if joint is None else [time_s for time_s in times if joint.hits(time_s)])


@given(beats, st.integers(-500, 500))
def test_the_next_time_of_a_beat_is_the_first_that_hits(beat: Beat, time_s: int) -> None:
    assert beat.next(time_s) == next(t for t in range(time_s, time_s + 61) if beat.hits(t))


stages = st.builds(Stage, st.integers(-5, 5), st.integers(1, 8), st.integers(1, 4))


@given(free_steps(), stages, st.integers(0, 20), st.integers(0, 40))
def test_ranges_are_exactly_the_starts_with_enough_free_all_along(
    steps: list[tuple[int, int, int]], stage: Stage, first: int, length: int
) -> None:
    found = list(ranges(steps, stage, first, first + length))
    expected = [
        t
        for t in range(first, first + length + 1)
        if all(
            free_at({"x": steps}, "x", second) >= stage.units
            for second in range(t + stage.offset_s, t + stage.end_s)
        )
    ]
    assert [t for begin, end in found for t in range(begin, end + 1)] == expected


@given(free_steps(), stages, st.integers(0, 4), st.integers(0, 20), st.integers(0, 40))
def test_levels_say_for_each_start_how_many_units_are_free_all_along(
    steps: list[tuple[int, int, int]], stage: Stage, more: int, first: int, length: int
) -> None:
    found = list(levels(steps, stage, stage.units + more, first, first + length))
    expected = {}
    for t in range(first, first + length + 1):
        seconds = range(t + stage.offset_s, t + stage.end_s)
        units = min(free_at({"x": steps}, "x", second) for second in seconds)
        if units >= stage.units:
            expected[t] = min(units, stage.units + more)
    assert {t: units for begin, end, units in found for t in range(begin, end + 1)} == expected
    for (_, end, units), (begin, _, other) in pairwise(found):
        assert end < begin
        assert end + 1 < begin or units != other


@given(st.lists(stages, min_size=1, max_size=4))
def test_added_stages_need_the_same_units_at_every_second(several: list[Stage]) -> None:
    joined = added(several)
    for second in range(-6, 20):
        here = Stage(second, 1, 0)
        assert sum(s.units for s in several if s.overlaps(here)) == sum(
            s.units for s in joined if s.overlaps(here)
        )
    assert not any(one.overlaps(other) for one, other in combinations(joined, 2))


range_lists = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), max_size=6).map(
    lambda pairs: _ranges(pairs)
)


def _ranges(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    made, at = [], 0
    for gap, length in pairs:
        made.append((at + gap, at + gap + length))
        at += gap + length
    return made


def _members(list_of: list[tuple[int, int]]) -> set[int]:
    return {t for begin, end in list_of for t in range(begin, end + 1)}


@given(range_lists, range_lists)
def test_an_intersection_holds_exactly_what_lies_in_both(
    ours: list[tuple[int, int]], theirs: list[tuple[int, int]]
) -> None:
    both = list(intersection(ours, theirs))
    assert _members(both) == _members(ours) & _members(theirs)
    assert both == sorted(both)


@given(st.lists(range_lists, min_size=1, max_size=6))
def test_what_is_common_to_many_is_the_intersection_two_by_two(
    lists: list[list[tuple[int, int]]],
) -> None:
    assert list(in_all(lists)) == list(reduce(intersection, lists))


def test_any_number_of_series_is_intersected_without_deeper_calls() -> None:
    assert list(in_all([[(1, 5), (8, 9)]] * (4 * sys.getrecursionlimit()))) == [(1, 5), (8, 9)]


@given(st.lists(range_lists, max_size=5))
def test_most_together_is_the_largest_count_at_any_one_start(
    lists: list[list[tuple[int, int]]],
) -> None:
    members = [_members(each) for each in lists]
    counts = [sum(t in each for each in members) for t in range(80)]
    assert most_together(lists) == max(counts)
