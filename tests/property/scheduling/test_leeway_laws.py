"""What is free until when is what a walk over a plan of all bookings finds."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.scheduling.leeway import Leeway, PlanLeeway, ShadowLeeway, leeway_in
from kalends.scheduling.profile import NEVER, Profile

NODES = 12
BOOKINGS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 19), st.integers(1, 4)), max_size=12
)
STARTS = st.lists(st.tuples(st.integers(1, NODES), st.integers(1, 40)), max_size=12)


def agrees(leeway: Leeway, plan: Profile, now: int) -> None:
    """Each number of nodes is free until then, and not a second longer."""
    for nodes in range(1, NODES + 1):
        until_s = leeway.until(nodes)
        assert (until_s > now) == (nodes <= leeway.widest)
        if until_s < NEVER:
            assert not plan.fits(nodes, now, max(until_s, now) + 1)
        if until_s > now:
            assert plan.fits(nodes, now, until_s)


def start_all(leeway: Leeway, plan: Profile, starts: list[tuple[int, int]], now: int) -> None:
    """Start those that fit, in the plan and in the leeway."""
    for nodes, length_s in starts:
        fits = plan.fits(nodes, now, now + length_s)
        assert (now + length_s <= leeway.until(nodes)) == fits
        if fits:
            plan.take(nodes, now, now + length_s)
            leeway.take(nodes, now + length_s)
            agrees(leeway, plan, now)
            effort.steps["leeways"] += 1


@given(bookings=BOOKINGS, starts=STARTS, nodes=st.integers(1, NODES), length_s=st.integers(1, 30))
@settings(max_examples=effort.examples(200), deadline=None)
def test_jobs_fit_beside_the_head_of_a_plan_as_long_as_its_leeway_says(
    bookings: list[tuple[int, int, int]], starts: list[tuple[int, int]], nodes: int, length_s: int
) -> None:
    plan = Profile(0, NODES)
    for begin_s, taken_s, taken in bookings:
        if plan.fits(taken, begin_s, begin_s + taken_s):
            plan.take(taken, begin_s, begin_s + taken_s)
    agrees(leeway_in(plan), plan, 0)
    shadow_s = plan.earliest(nodes, length_s, 0)
    leeway = leeway_in(plan, (shadow_s, shadow_s + length_s, nodes))
    plan.take(nodes, shadow_s, shadow_s + length_s)
    agrees(leeway, plan, 0)
    start_all(leeway, plan, starts, 0)


@given(
    starts=STARTS, free=st.integers(1, NODES), shadow_s=st.integers(1, 30), extra=st.integers(0, 12)
)
@settings(max_examples=effort.examples(200), deadline=None)
def test_shadow_time_and_extra_nodes_are_a_staircase_of_two_steps(
    starts: list[tuple[int, int]], free: int, shadow_s: int, extra: int
) -> None:
    plan = Profile(0, free)
    plan.take(free - min(extra, free), shadow_s, NEVER)
    start_all(ShadowLeeway(free, shadow_s, extra), plan, starts, 0)


def test_what_is_taken_for_long_is_missing_before_and_behind() -> None:
    leeway = PlanLeeway([2, 5, 9], [30, 20, 10])
    leeway.take(3, 15)
    assert msgspec.structs.astuple(leeway) == ([2, 6], [30, 10])
    leeway.take(2, 25)
    assert msgspec.structs.astuple(leeway) == ([4], [10])
