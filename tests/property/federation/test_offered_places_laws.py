"""Whatever was offered: the order is total, and the same whoever answered first."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests import effort

from kalends.federation.draws import number_of
from kalends.federation.offered_places import OfferedPlace, best_first

TIMES = st.sampled_from((0, 100, 200, 300))
PLACES = st.builds(
    OfferedPlace,
    site=st.sampled_from(("a", "b", "c", "d")),
    resource=st.sampled_from(("one", "two")),
    nodes=st.sampled_from((1, 2)),
    start_by=TIMES,
    p50=TIMES,
    p90=TIMES,
    runs_s=st.sampled_from((0.0, 100.0)),
    firm=st.booleans(),
    cost=st.sampled_from((0.0, 1.0)),
    preference_s=st.sampled_from((0.0, 100.0)),
    transport_s=st.sampled_from((0.0, 100.0)),
)


def better(one: OfferedPlace, other: OfferedPlace, rid: str, cost_weight_s: float) -> bool:
    """Whether `one` comes before `other`, said in words."""
    starts = [each.start_by if each.firm else each.p90 for each in (one, other)]
    if (starts[0] == 0) != (starts[1] == 0):
        return starts[1] == 0
    if starts != [0, 0]:
        ends = [
            start + each.transport_s + each.runs_s + cost_weight_s * each.cost - each.preference_s
            for start, each in zip(starts, (one, other), strict=True)
        ]
        if ends[0] != ends[1]:
            return ends[0] < ends[1]
    if one.firm != other.firm:
        return one.firm
    if one.site != other.site:
        return number_of(rid, one.site) < number_of(rid, other.site)
    return one < other


@given(PLACES, PLACES, st.integers(-300, 300), st.integers(0, 10**6))
def test_a_place_wins_that_is_worth_more_than_it_ends_later(
    one: OfferedPlace, other: OfferedPlace, more_s: int, number: int
) -> None:
    one, other = (
        each._replace(start_by=each.start_by + 1, firm=True, cost=0.0, preference_s=0.0)
        for each in (one, other)
    )
    ends = [each.counted_start + each.transport_s + each.runs_s for each in (one, other)]
    later_s = ends[0] - ends[1]
    preferred = one._replace(preference_s=later_s + more_s)
    best = best_first([other, preferred], f"request {number}")[0]
    if more_s:
        assert best is (preferred if more_s > 0 else other)


@given(
    st.lists(PLACES, max_size=12),
    st.integers(0, 10**6),
    st.sampled_from((0.0, 50.0)),
    st.integers(0, 2**32),
)
def test_the_order_is_total_and_does_not_hang_on_who_answered_first(
    offered: list[OfferedPlace], number: int, cost_weight_s: float, seed: int
) -> None:
    rid = f"request {number}"
    found = best_first(offered, rid, cost_weight_s)
    shuffled = Random(seed).sample(offered, len(offered))
    assert best_first(shuffled, rid, cost_weight_s) == found
    assert sorted(found) == sorted(offered)
    for place, one in enumerate(found):
        for other in found[place + 1 :]:
            assert not better(other, one, rid, cost_weight_s)
            effort.steps["offers of places"] += 1


@given(st.lists(PLACES, min_size=1, max_size=12), st.integers(0, 10**6))
def test_the_best_stays_the_best_when_others_are_left_out(
    offered: list[OfferedPlace], number: int
) -> None:
    found = best_first(offered, f"request {number}")
    for cut in range(1, len(found) + 1):
        assert best_first(found[:cut], f"request {number}") == found[:cut]
