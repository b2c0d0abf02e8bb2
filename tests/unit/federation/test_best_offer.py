"""Which offer is the best: the earliest end, by what is promised or by what is likely."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kalends.federation.offered_places import (
    OfferedPlace,
    best_first,
    decided_within_s,
    told_wait_s,
)

T0 = 1_800_000_000


def place(site: str, **fields: Any) -> OfferedPlace:
    usual = {
        "resource": f"{site}/box", "nodes": 4, "start_by": T0 + 100, "p50": T0 + 50, "p90": T0 + 90,
        "runs_s": 600.0, "firm": True,
    }  # fmt: skip
    return OfferedPlace(site=site, **{**usual, **fields})


def order(*places: OfferedPlace, cost_weight_s: float = 0.0) -> list[str]:
    return [each.site for each in best_first(places, "a-request", cost_weight_s)]


def test_the_earliest_end_is_best_not_the_earliest_start() -> None:
    assert order(place("slow", start_by=T0), place("fast", runs_s=400.0)) == ["fast", "slow"]


def test_a_promise_counts_by_its_bound_and_a_likely_start_by_the_cautious_one() -> None:
    likely = place("likely", firm=False, start_by=0, p50=T0 + 10, p90=T0 + 200)
    assert order(likely, place("firm")) == ["firm", "likely"]
    assert order(likely._replace(p90=T0 + 99), place("firm")) == ["likely", "firm"]


def test_of_equal_offers_the_promise_is_better() -> None:
    for n in range(20):
        likely = place(f"likely{n}", firm=False, p90=T0 + 100)
        assert order(likely, place("firm")) == ["firm", f"likely{n}"]


def test_what_does_not_say_when_it_starts_is_last() -> None:
    untold = place("untold", firm=False, p90=0, preference_s=1e9)
    assert order(untold, place("late", start_by=T0 + 10**6)) == ["late", "untold"]


def test_cost_and_preference_count_in_seconds() -> None:
    dear, far = place("dear", cost=10.0), place("far", start_by=T0 + 150)
    assert order(dear, far) == ["dear", "far"]
    assert order(dear, far, cost_weight_s=6.0) == ["far", "dear"]
    assert order(dear, far._replace(preference_s=51.0)) == ["far", "dear"]


def test_equal_sites_win_about_as_often() -> None:
    places = [place(site) for site in ("a", "b", "c", "d")]
    won = Counter(best_first(places, f"request {n}")[0].site for n in range(4_000))
    assert all(900 < won[site] < 1_100 for site in "abcd")


def test_a_start_within_the_time_for_the_decision_tells_of_no_wait() -> None:
    assert [decided_within_s(hold_ms) for hold_ms in (1_000, 9_001, 10_000)] == [2, 11, 11]
    assert [told_wait_s(T0 + s, 10_000, T0) for s in (-3, 0, 11, 12, 600)] == [0, 0, 0, 12, 600]
