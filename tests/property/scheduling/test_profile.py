"""The profile of free nodes answers like an array with one number a second."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.scheduling.profile import Profile, QueuedPlan

NODES = 10
END = 60
"""All bookings end before; the profile is free from there on."""

BOOKINGS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 19), st.integers(1, 6)), max_size=30
)


def seconds(profile: Profile, start: int) -> list[int]:
    """What is free in each second of ``[start, END)``."""
    found, at = [], 0
    for time in range(start, END):
        while at + 1 < len(profile.times) and profile.times[at + 1] <= time:
            at += 1
        found.append(profile.free[at])
    return found


def room(free: list[int], nodes: int, start: int, length: int) -> bool:
    return all(each >= nodes for each in free[start : start + length])


@given(
    bookings=BOOKINGS, nodes=st.integers(1, NODES), length=st.integers(1, 25), at=st.integers(0, 50)
)
@settings(max_examples=effort.examples(400), deadline=None)
def test_a_profile_answers_like_one_number_a_second(
    bookings: list[tuple[int, int, int]], nodes: int, length: int, at: int
) -> None:
    profile, free = Profile(0, NODES), [NODES] * (END + 200)
    kept = []
    for start, booked_s, taken in bookings:
        if not room(free, taken, start, booked_s):
            continue
        profile.take(taken, start, start + booked_s)
        kept.append((start, start + booked_s, taken))
        for second in range(start, start + booked_s):
            free[second] -= taken
        assert seconds(profile, 0) == free[:END]
        assert all(one != other for one, other in zip(profile.free, profile.free[1:], strict=False))
        effort.steps["profile of free nodes"] += 1
    assert seconds(Profile.of(0, NODES, kept), 0) == free[:END]
    earliest = next(start for start in range(at, END + 100) if room(free, nodes, start, length))
    assert profile.earliest(nodes, length, at) == earliest
    for end in range(at, END, 7):
        in_time = earliest + length <= end
        assert profile.within(nodes, length, at, end) == (earliest if in_time else None)
    assert profile.fits(nodes, at, at + length) == room(free, nodes, at, length)
    profile.forget_before(at)
    assert seconds(profile, at) == free[at:END]
    assert profile.times[0] == max(at, 0)
    assert profile.earliest(nodes, length, at) == earliest
    _gives_all_back(profile, free, kept, at)


def _gives_all_back(
    profile: Profile, free: list[int], kept: list[tuple[int, int, int]], now: int
) -> None:
    for start, end, taken in kept:
        profile.take(-taken, max(start, now), end)
    assert profile.times == [now]
    assert profile.free == [NODES]


def test_a_queued_plan_books_where_a_walk_from_the_beginning_does() -> None:
    for seed in range(effort.examples(60)):
        draw = random.Random(seed)
        running = [(0, draw.randint(1, 30), 1) for _ in range(draw.randint(0, NODES))]
        plain, queued = (Profile.of(0, NODES, running) for _ in range(2))
        plan = QueuedPlan(queued)
        for _ in range(80):
            nodes, length = draw.randint(1, NODES), draw.choice((1, 3, 9, 27, 80))
            start = plain.earliest(nodes, length, 0)
            assert plan.earliest(nodes, length) == start
            if draw.random() < 0.8:
                assert plan.book(nodes, length) == start
                plain.take(nodes, start, start + length)
            effort.steps["queued plan"] += 1
        assert (queued.times, queued.free) == (plain.times, plain.free)
