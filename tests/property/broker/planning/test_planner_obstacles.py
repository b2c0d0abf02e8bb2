"""What stands in the way, and what a start costs others: against trying everything."""

from __future__ import annotations

from itertools import combinations

import msgspec
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from tests import effort
from tests.planner_worlds import (
    END,
    Free,
    Infos,
    free_at,
    free_steps,
    requests,
    suits,
    worlds,
)

from kalends.broker.planning.demand import start_window
from kalends.broker.planning.in_flight import fits
from kalends.broker.planning.obstacles import TRIES_MAX, fewest_to_move
from kalends.broker.planning.planner import plan
from kalends.broker.planning.start_costs import idle_unit_s, price
from kalends.calendars.covers import COVERS_MAX
from kalends.contract.messages import Want
from kalends.core.requests import Alternative, Request, Term
from kalends.core.resources import ResourceInfo, Slot

Booked = list[tuple[str, Slot]]


@st.composite
def booked(draw: st.DrawFn, infos: Infos, allowed: Free) -> Booked:
    """A few bookings, none more than the rules allow together with the others."""
    made: Booked = []
    for name, start, length, units in draw(
        st.lists(
            st.tuples(
                st.sampled_from(sorted(infos)),
                st.integers(0, END),
                st.integers(1, 12),
                st.integers(1, 4),
            ),
            max_size=5,
        )
    ):
        slot = Slot(start, start + length, units, "locked")
        if all(
            free_at(left(allowed, made), name, second) >= units
            for second in range(start, start + length)
        ):
            made.append((name, slot))
    return made


def left(allowed: Free, made: Booked) -> Free:
    """What the rules allow less the bookings, second by second."""
    free: Free = {}
    for name, steps in allowed.items():
        units = {second: units for start, end, units in steps for second in range(start, end)}
        for of, slot in made:
            if of == name:
                for second in range(slot.start, slot.end):
                    units[second] = units.get(second, 0) - slot.units
        free[name] = [
            (second, second + 1, units[second]) for second in sorted(units) if units[second] > 0
        ]
    return free


def slow_fewest(
    request: Request, infos: Infos, allowed: Free, made: Booked
) -> tuple[int, int, int] | None:
    """How many must move, the earliest start then, and its alternative: every choice is tried."""
    for number in range(len(made) + 1):
        effort.steps["bookings moved away"] += 1
        found = []
        for moved in combinations(made, number):
            free = left(allowed, [each for each in made if each not in moved])
            found += [(each.start, each.alternative) for each in plan(request, infos, free)]
        if found:
            return number, *min(found)
    return None


@given(worlds(), st.lists(requests(), min_size=1, max_size=2), st.data())
@settings(max_examples=effort.examples(150), deadline=None)
def test_the_fewest_bookings_to_move_are_as_few_as_in_any_choice(
    world: tuple[Infos, Free], several: list[Request], data: st.DataObject
) -> None:
    infos, allowed = world
    made = data.draw(booked(infos, allowed))
    request = Request(
        alternatives=tuple(Alternative(terms=each.alternatives[0].terms) for each in several),
        duration_s=several[0].duration_s,
        not_before=several[0].not_before,
        not_after=several[0].not_before + 60,
    )
    slots: dict[str, list[Slot]] = {}
    for name, slot in made:
        slots.setdefault(name, []).append(slot)
    expected = slow_fewest(request, infos, allowed, made)
    found = fewest_to_move(request, infos, allowed, slots)
    event(f"{expected and expected[0]} to move")
    if found is None:
        assert expected is None
        return
    assert expected is not None
    assert len(set(found.moves)) == len(found.moves)
    stay = list(made)
    for move in found.moves:
        stay.remove((move.resource, move.slot))
    chosen = (request.alternatives[found.alternative],)
    of_one = msgspec.structs.replace(request, alternatives=chosen)
    first, last = start_window(of_one)
    assert first <= found.start <= last
    assert suits(of_one, infos, left(allowed, stay), found.start)
    if found.exact:
        assert (len(found.moves), found.start, found.alternative) == expected
    else:
        assert len(found.moves) >= expected[0]
    at_start = fewest_to_move(request, infos, allowed, slots, (found.alternative, found.start))
    assert at_start is not None
    assert at_start.moves == found.moves


@given(free_steps(), st.data())
@settings(max_examples=effort.examples(200), deadline=None)
def test_the_price_counts_gaps_that_are_too_short_and_what_waits_in_vain(
    steps: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    begin = data.draw(st.integers(0, 30))
    length = data.draw(st.integers(1, 8))
    units = data.draw(st.integers(1, 3))
    want = Want("a/one", begin, begin + length, units)
    assume(fits([want], {"a/one": steps}))
    looked = (data.draw(st.integers(-1, 5)), data.draw(st.integers(40, 80)))
    waiting = data.draw(
        st.lists(
            st.tuples(st.integers(0, 30), st.integers(1, 8), st.integers(1, 3)).map(
                lambda each: Want("a/one", each[0], each[0] + each[1], each[2])
            ),
            max_size=4,
        )
    )
    found = price((want,), {"a/one": steps}, looked, {"a/one": waiting})
    before = {t: free_at({"a/one": steps}, "a/one", t) for t in range(-2, 200)}
    after = {t: free - (units if want.start <= t < want.end else 0) for t, free in before.items()}
    assert found.idle_unit_s == slow_idle(after, want, looked) - slow_idle(before, want, looked)
    assert idle_unit_s(steps, want, looked) == slow_idle(before, want, looked)
    lost = [
        each
        for each in waiting
        if min(before[t] for t in range(each.start, each.end)) >= each.units
        and min(after[t] for t in range(each.start, each.end)) < each.units
    ]
    assert found.delays == len(lost)


def slow_idle(free: dict[int, int], like: Want, looked: tuple[int, int]) -> int:
    """Second by second: how far the room for the units reaches to both sides."""
    idle = 0
    for t, units in free.items():
        if units < like.units:
            continue
        begin = end = t
        while free.get(begin - 1, 0) >= like.units:
            begin -= 1
        while free.get(end, 0) >= like.units:
            end += 1
        if end - begin < like.end - like.start and looked[0] < begin and end < looked[1]:
            idle += like.units
    return idle


def test_a_search_that_is_cut_short_says_so_and_still_makes_room() -> None:
    rows = 30
    slots = [
        Slot(start, start + length, 1 + (start * 7 + length) % 5, "locked")
        for start in range(0, 3 * rows, 2)
        for length in (3, 5, 7)
    ]
    used = [sum(s.units for s in slots if s.start <= t < s.end) for t in range(4 * rows)]
    request = _whole_machine(3 * rows, max(used))
    infos = _machine(max(used))
    allowed = {"a/m": [(0, 4 * rows, max(used))]}
    found = fewest_to_move(request, infos, allowed, {"a/m": slots})
    assert found is not None
    stay = [slot for slot in slots if slot not in {move.slot for move in found.moves}]
    for t in range(3 * rows):
        assert max(used) - sum(s.units for s in stay if s.start <= t < s.end) >= max(used) // 2
    assert not found.exact
    assert COVERS_MAX < TRIES_MAX


def _whole_machine(length_s: int, capacity: int) -> Request:

    return Request(
        alternatives=(Alternative(terms=(Term(resource="a/m", units=capacity // 2),)),),
        duration_s=length_s,
        not_before=0,
        not_after=length_s,
    )


def _machine(capacity: int) -> Infos:

    return {"a/m": ResourceInfo(name="a/m", capacity=capacity, grain_s=1)}
