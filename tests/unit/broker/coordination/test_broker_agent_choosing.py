"""The best common start of what sites hold, against a slow twin that tries every combination."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples

from kalends.broker.coordination.agents import agent_choice
from kalends.broker.coordination.agents.agent_choice import (
    Need,
    Option,
    best_choice,
    cheapest,
    common_starts,
    starts_of,
)
from kalends.contract.messages import SiteReport
from kalends.core import limits
from kalends.core.scripts import HeldChoice, Offered, Starts

NAMES = ("a/one", "a/two", "b/one", "b/two")


@st.composite
def some_needs(draw: st.DrawFn) -> list[Need]:
    return [
        Need(term, draw(st.integers(1, 2)), draw(st.integers(0, 1)))
        for term in range(draw(st.integers(1, 3)))
    ]


OPTIONS = st.lists(
    st.builds(Option, st.integers(0, 2), st.sampled_from(NAMES), st.integers(0, 9)), max_size=9
)


def serves(needs: Sequence[Need], options: Sequence[Option]) -> bool:
    groups = {need.term: need.group for need in needs}
    counts = Counter(option.term for option in options)
    taken = {(groups.get(option.term), option.resource) for option in options}
    return (
        all(counts[need.term] == need.wanted for need in needs)
        and len(options) == sum(need.wanted for need in needs)
        and len(taken) == len(options)
    )


def least_cost(needs: Sequence[Need], options: Sequence[Option]) -> int | None:
    wanted = sum(need.wanted for need in needs)
    return min(
        (
            sum(option.rank for option in some)
            for some in itertools.combinations(options, wanted)
            if serves(needs, some)
        ),
        default=None,
    )


@settings(max_examples=examples(400))
@given(some_needs(), OPTIONS)
def test_the_cheapest_matching_is_as_cheap_as_the_best_of_all_combinations(
    needs: list[Need], options: list[Option]
) -> None:
    found = cheapest(needs, options)
    least = least_cost(needs, options)
    if found is None:
        assert least is None
        return
    assert serves(needs, found)
    assert all(option in options for option in found)
    assert sum(option.rank for option in found) == least


@settings(max_examples=examples(200))
@given(
    st.lists(st.integers(1, 2), min_size=2, max_size=3),
    st.dictionaries(
        st.tuples(st.integers(0, 2), st.sampled_from(NAMES)), st.integers(0, 9), min_size=6
    ),
)
def test_terms_that_want_the_same_resources_let_go_of_them_for_the_common_good(
    wanted: list[int], ranks: dict[tuple[int, str], int]
) -> None:
    needs = [Need(term, count, 0) for term, count in enumerate(wanted)]
    options = [Option(term, name, rank) for (term, name), rank in ranks.items()]
    found = cheapest(needs, options)
    least = least_cost(needs, options)
    assert (None if found is None else sum(option.rank for option in found)) == least


def test_a_term_lets_go_of_what_another_can_do_without_less() -> None:
    options = [Option(0, "a", 1), Option(0, "b", 2), Option(1, "a", 1)]
    found = cheapest([Need(0, 1, 0), Need(1, 1, 0)], options)
    assert found == [Option(1, "a", 1), Option(0, "b", 2)]


@settings(max_examples=examples(200))
@given(
    some_needs(),
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 2), st.sampled_from(NAMES), st.integers(0, 3)), max_size=6
        ),
        max_size=2,
    ),
    st.sets(st.integers(0, 3), max_size=2),
)
def test_the_best_start_has_the_least_cost_and_is_the_earliest_of_those(
    needs: list[Need], sites: list[list[tuple[int, str, int]]], excluded: set[int]
) -> None:
    numbers = itertools.count(1)
    held = [
        [
            HeldChoice(next(numbers), term, name, common, common + 1, 1, common)
            for term, name, common in of_site
        ]
        for of_site in sites
    ]
    costs: dict[int, int] = {}
    for common in range(4):
        options = [
            Option(hold.term, hold.resource, rank)
            for of_site in held
            for rank, hold in enumerate(of_site)
            if hold.common == common
        ]
        if common not in excluded and (cost := least_cost(needs, options)) is not None:
            costs[common] = cost
    choice = best_choice(needs, [enumerate(of_site) for of_site in held], excluded)
    if choice is None:
        assert not costs
        return
    assert (choice.cost, choice.common) == min((cost, common) for common, cost in costs.items())
    kept = [Option(hold.term, hold.resource, 0) for hold in choice.holds]
    assert serves(needs, kept)
    assert {hold.common for hold in choice.holds} == {choice.common}
    assert all(any(hold in of_site for of_site in held) for hold in choice.holds)


@settings(max_examples=examples(200))
@given(
    some_needs(),
    st.dictionaries(
        st.sampled_from(("a", "b")),
        st.lists(
            st.tuples(st.integers(0, 2), st.sampled_from(NAMES), st.integers(0, 4)), max_size=8
        ),
    ),
    st.dictionaries(
        st.sampled_from(("a", "b")), st.lists(st.integers(0, 4), max_size=5, unique=True)
    ),
    st.integers(1, 5),
)
def test_the_next_starts_suit_and_none_that_more_sites_wish_for_is_left_out(
    needs: list[Need],
    offered: dict[str, list[tuple[int, str, int]]],
    wished: dict[str, list[int]],
    count_max: int,
) -> None:
    suiting = {
        start
        for start in range(5)
        if least_cost(
            needs,
            list(
                dict.fromkeys(
                    Option(term, name, 0)
                    for of_site in offered.values()
                    for term, name, at in of_site
                    if at == start
                )
            ),
        )
        is not None
    }
    starts = common_starts(needs, offered, wished, (), count_max)
    assert list(starts) == sorted(set(starts))
    assert set(starts) <= suiting
    assert len(starts) == min(count_max, len(suiting))
    wishes = Counter(start for of_site in wished.values() for start in of_site)
    left_out = suiting - set(starts)
    assert all(wishes[kept] >= wishes[other] for kept in starts for other in left_out)


def test_starts_are_tried_in_order_of_the_wishes_and_no_more_of_them_than_are_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[Sequence[Option]] = []

    def counted(needs: Sequence[Need], options: Sequence[Option]) -> list[Option] | None:
        tried.append(options)
        return cheapest(needs, options)

    monkeypatch.setattr(agent_choice, "cheapest", counted)
    needs = [Need(0, 1, 0), Need(1, 1, 0)]
    offered = {
        "a": [(term, name, start) for term in (0, 1) for name in NAMES for start in range(9)]
    }
    assert common_starts(needs, offered, {"a": [7, 8, 3]}, {8}, 3) == (0, 3, 7)
    assert len(tried) == 3


@settings(max_examples=examples(200))
@given(
    st.lists(st.tuples(st.integers(-50, 150), st.integers(-50, 150)), max_size=6),
    st.integers(0, 40), st.integers(0, 60), st.integers(1, 9),
)  # fmt: skip
def test_runs_are_read_start_by_start_within_the_window(
    runs: list[tuple[int, int]], first: int, length_s: int, step_s: int
) -> None:
    window = Starts(first, first + length_s, step_s)
    report = SiteReport(site="a", offered=(Offered(0, "a/one", tuple(runs)),))
    slowly = [
        (0, "a/one", start)
        for begin, end in runs
        for start in range(begin, end + 1, step_s)
        if window.first <= start <= window.last
    ]
    assert starts_of(report, window) == slowly


def test_a_site_that_offers_endlessly_is_heard_no_longer_than_a_visit_may_offer() -> None:
    endless = Offered(0, "a/one", tuple((-(1 << 62), 1 << 62) for _ in range(100)))
    report = SiteReport(site="a", offered=(endless,))
    found = starts_of(report, Starts(0, 1 << 30, 1))
    assert len(found) == limits.OFFERS_MAX
