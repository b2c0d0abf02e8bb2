"""Prices and budgets against a slow obvious twin: every alternative, start, way and amount is tried."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests import effort
from tests.planner_worlds import END, Free, Infos, assert_stands, requests, worlds
from tests.property.broker.planning.test_planner_weights import (
    all_ways,
    wants_of,
    weighted_requests,
)

from kalends.broker.planning.planner import plan
from kalends.broker.planning.price_lists import PriceLists, cost
from kalends.contract.messages import Want
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import site_of
from kalends.core.requests import Alternative, Attribute, Request, Term, span, span_of
from kalends.core.resources import ResourceInfo

FAR = 1_000


@st.composite
def price_steps(draw: st.DrawFn) -> tuple[tuple[int, int, int], ...]:
    edges = sorted(draw(st.sets(st.integers(1, END + 20), max_size=4)))
    borders = [-FAR, *edges, FAR]
    rates = draw(
        st.lists(st.sampled_from((0, 1, 1, 2, 3, 7)), min_size=len(borders), max_size=len(borders))
    )
    return tuple(zip(borders, borders[1:], rates, strict=False))


@st.composite
def priced(draw: st.DrawFn, infos: Infos) -> PriceLists:
    """Two lists for each site, and some resources that are free."""
    of, lists = {}, {}
    for name in infos:
        kind = draw(st.sampled_from(("day", "night", "")))
        if kind:
            of[name] = f"{site_of(name)} {kind}"
            if of[name] not in lists:
                lists[of[name]] = draw(price_steps())
    return PriceLists(of, lists)


def slow_cost(prices: PriceLists, want: Want) -> int:
    """Second by second."""
    steps = prices.steps(want.resource)
    return want.units * sum(
        rate
        for second in range(want.start, want.end)
        for start, end, rate in steps
        if start <= second < end
    )


def slow_costs(prices: PriceLists, wants: list[Want]) -> dict[str, int]:
    found: dict[str, int] = {}
    for want in wants:
        if prices.steps(want.resource):
            site = site_of(want.resource)
            found[site] = found.get(site, 0) + slow_cost(prices, want)
    return found


def within(request: Request, costs: dict[str, int]) -> bool:
    return all(costs.get(site, 0) <= cap for site, cap in request.at_most.items())


def told_cost(request: Request, costs: dict[str, int]) -> int:
    return sum(parts * request.rates.get(site, 1_000) for site, parts in costs.items())


def slow_best(
    request: Request, infos: Infos, free: Free, prices: PriceLists
) -> tuple[Fraction, int, int, int] | None:
    """Weight, price, start and alternative of the best that there is."""
    tried = []
    for number, alternative in enumerate(request.alternatives):
        begin_s, end_s = span_of(request, alternative)
        for t in range(request.not_before - begin_s, request.not_after - end_s + 1):
            effort.steps["starts of requests with prices"] += 1
            for claims, weight in all_ways(request, number, infos, free, t):
                costs = slow_costs(prices, wants_of(request, claims, t))
                if within(request, costs):
                    price = told_cost(request, costs) if request.prefer_price else 0
                    tried.append((-weight, price, t, number))
    best = min(tried, default=None)
    return best and (-best[0], *best[1:])


def with_plain_amounts(request: Request) -> Request:
    """A weight of 0 for an amount leaves it open whether a cheap plan takes more."""
    return msgspec.structs.replace(
        request,
        alternatives=tuple(
            msgspec.structs.replace(
                each,
                terms=tuple(
                    msgspec.structs.replace(term, units_weight=term.units_weight or 1.0)
                    for term in each.terms
                ),
            )
            for each in request.alternatives
        ),
    )


@given(worlds(), weighted_requests(), st.data())
@settings(max_examples=effort.examples(250), deadline=None)
def test_the_cheapest_is_the_cheapest_of_trying_every_start_choice_and_amount(
    world: tuple[Infos, Free], weighted: Request, data: st.DataObject
) -> None:
    infos, free = world
    prices = data.draw(priced(infos))
    request = msgspec.structs.replace(
        with_plain_amounts(weighted), prefer_price=True, rates={"a": 1_000, "b": 3_000}
    )
    expected = slow_best(request, infos, free, prices)
    found = plan(request, infos, free, prices=prices)
    event("found" if found else "none")
    assert bool(found) == (expected is not None)
    if expected is not None:
        (made,) = found
        assert made.costs == slow_costs(prices, list(made.wants))
        told = (made.weight, told_cost(request, dict(made.costs)), made.start)
        if prices:
            assert (*told, made.alternative) == (float(expected[0]), *expected[1:])


@given(worlds(), requests(), st.booleans(), st.data())
@settings(max_examples=effort.examples(250), deadline=None)
def test_what_is_beyond_the_budget_of_an_owner_is_left_out_and_nothing_else(
    world: tuple[Infos, Free], asked: Request, prefer: bool, data: st.DataObject
) -> None:
    infos = {name: info for name, info in world[0].items() if name.startswith("a/")}
    free = {name: steps for name, steps in world[1].items() if name in infos}
    prices = data.draw(priced(infos))
    cap = data.draw(st.integers(0, 30))
    request = msgspec.structs.replace(asked, at_most={"a": cap}, prefer_price=prefer)
    competing = len([term for term in request.alternatives[0].terms if term.attributes]) > 1
    expected = slow_best(request, infos, free, prices)
    found = plan(request, infos, free, prices=prices)
    event("found" if found else "none")
    for made in found:
        assert_stands(request, infos, free, made)
        assert within(request, slow_costs(prices, list(made.wants)))
    if competing:
        return
    assert [made.start for made in found] == ([expected[2]] if expected else [])
    if expected and prefer and prices:
        assert told_cost(request, dict(found[0].costs)) == expected[1]


@given(worlds(), requests(), st.data())
@settings(max_examples=effort.examples(100), deadline=None)
def test_budgets_of_two_owners_hold_for_each(
    world: tuple[Infos, Free], asked: Request, data: st.DataObject
) -> None:
    infos, free = world
    terms = tuple(term for term in asked.alternatives[0].terms if term.resource)
    if not terms:
        return
    prices = data.draw(priced(infos))
    caps = {"a": data.draw(st.integers(0, 30)), "b": data.draw(st.integers(0, 30))}
    request = msgspec.structs.replace(asked, alternatives=(Alternative(terms=terms),), at_most=caps)
    expected = slow_best(request, infos, free, prices)
    found = plan(request, infos, free, prices=prices)
    assert [made.start for made in found] == ([expected[2]] if expected else [])


@given(worlds(), requests(), st.integers(1, 3), st.data())
@settings(max_examples=effort.examples(100), deadline=None)
def test_several_cheap_plans_ascend_by_price_and_share_no_time(
    world: tuple[Infos, Free], asked: Request, count: int, data: st.DataObject
) -> None:
    infos, free = world
    prices = data.draw(priced(infos))
    request = msgspec.structs.replace(asked, prefer_price=True, rates={"a": 1_000, "b": 1_000})
    found = plan(request, infos, free, count=count, prices=prices)
    told = [(told_cost(request, dict(made.costs)), made.start) for made in found]
    assert told == sorted(told)
    lead_s, tail_s = span(request)
    starts = sorted(start for _, start in told)
    assert all(after - before >= tail_s - lead_s for before, after in pairwise(starts))


@given(worlds(), requests())
@settings(max_examples=effort.examples(100), deadline=None)
def test_where_nothing_is_priced_nothing_changes(world: tuple[Infos, Free], asked: Request) -> None:
    infos, free = world
    cheap = msgspec.structs.replace(asked, prefer_price=True, at_most={"a": 0})
    assert plan(cheap, infos, free, count=3) == plan(asked, infos, free, count=3)


def test_prices_of_two_owners_are_not_compared_without_the_users_rates() -> None:
    infos = {name: ResourceInfo(name=name, grain_s=1) for name in ("a/one", "b/one")}
    free: Free = {name: [(0, 40, 1)] for name in infos}
    prices = PriceLists(
        {"a/one": "a x", "b/one": "b x"}, {"a x": ((0, 40, 1),), "b x": ((0, 40, 2),)}
    )
    either = Request(
        alternatives=tuple(Alternative(terms=(Term(resource=name),)) for name in infos),
        duration_s=4,
        not_before=0,
        not_after=40,
        prefer_price=True,
    )
    with pytest.raises(InvalidInput, match="cannot be compared") as refused:
        plan(either, infos, free, prices=prices)
    assert "--rate a=1,b=1" in refused.value.remedy
    dear = msgspec.structs.replace(either, rates={"a": 3_000, "b": 1_000})
    assert [made.alternative for made in plan(dear, infos, free, prices=prices)] == [1]


def test_a_bare_budget_for_several_owners_is_refused() -> None:
    prices = PriceLists(
        {"a/one": "a x", "b/one": "b x"}, {"a x": ((0, 40, 1),), "b x": ((0, 40, 2),)}
    )
    infos = {name: ResourceInfo(name=name, grain_s=1) for name in ("a/one", "b/one")}
    either = Request(
        alternatives=(Alternative(terms=(Term(resource="a/one"),)),),
        duration_s=4, not_before=0, not_after=40, at_most={"": 3},
    )  # fmt: skip
    with pytest.raises(InvalidInput, match="several owners"):
        plan(either, infos, {name: [(0, 40, 1)] for name in infos}, prices=prices)


@given(price_steps(), st.integers(0, END), st.integers(1, 30), st.integers(1, 3))
def test_a_slot_costs_what_its_seconds_cost(
    steps: tuple[tuple[int, int, int], ...], start: int, length: int, units: int
) -> None:
    want = Want("a/one", start, start + length, units)
    prices = PriceLists({"a/one": "a x"}, {"a x": steps})
    assert cost(steps, want) == slow_cost(prices, want)


def long_world(rng: random.Random, sites: str) -> tuple[Infos, Free, PriceLists]:
    """Free times so long that most starts lie between two ends of pieces, where none is looked at."""
    infos: Infos = {}
    free: Free = {}
    of, lists = {}, {}
    for name in (f"{site}/{local}" for site in sites for local in ("one", "two")):
        infos[name] = ResourceInfo(
            name=name, capacity=4, grain_s=rng.choice((1, 1, 2, 3)), attributes={"kind": "red"}
        )
        free[name], at = [], rng.randint(0, 6)
        for _ in range(rng.randint(1, 3)):
            length = rng.randint(15, 70)
            free[name].append((at, at + length, rng.choice((1, 3, 4))))
            at += length + rng.choice((0, 1, 4))
        borders = [-FAR, *sorted(rng.sample(range(1, 90), rng.randint(1, 4))), FAR]
        of[name] = f"{name[0]} {name}"
        lists[of[name]] = tuple((a, b, rng.randint(0, 9)) for a, b in pairwise(borders))
    return infos, free, PriceLists(of, lists)


def long_request(rng: random.Random, names: list[str], attribute_terms: int) -> Request:
    terms = []
    for number in range(rng.randint(1, 2)):
        stage = {
            "units": rng.choice((1, 1, 2)),
            "offset_s": rng.choice((0, 0, -3, 4)),
            "duration_s": rng.choice((0, 0, 3, 6)),
        }
        if number >= attribute_terms or rng.random() < 0.4:
            terms.append(Term(resource=rng.choice(names), **stage))
        else:
            red = Attribute(name="kind", operator="=", value="red")
            terms.append(Term(attributes=(red,), count=rng.choice((1, 1, 2)), **stage))
    request = Request(
        alternatives=(Alternative(terms=tuple(terms)),),
        duration_s=rng.choice((4, 9, 15)),
        not_before=5,
    )
    lead_s, tail_s = span(request)
    end = 5 + tail_s - lead_s + rng.choice((20, 60, 90))
    return msgspec.structs.replace(request, not_after=end)


@pytest.mark.parametrize("limited", [False, True], ids=["the cheapest", "within a budget"])
def test_between_the_ends_of_a_piece_no_start_is_better(limited: bool) -> None:
    for seed in range(effort.examples(120)):
        rng = random.Random(seed)
        infos, free, prices = long_world(rng, "a" if limited else "ab")
        asked = long_request(rng, list(infos), 1 if limited else 2)
        wishes: dict[str, Any] = {"prefer_price": True, "rates": {"a": 1_000, "b": 1_000}}
        if limited:
            wishes = {"at_most": {"a": rng.randint(10, 200)}, "prefer_price": rng.random() < 0.3}
        request = msgspec.structs.replace(asked, **wishes)
        expected = slow_best(request, infos, free, prices)
        found = plan(request, infos, free, prices=prices)
        cost = told_cost(request, dict(found[0].costs)) if found and request.prefer_price else 0
        told = (cost, found[0].start) if found else None
        assert told == (expected and expected[1:3]), seed
