"""Weights against a slow obvious twin: every alternative, start, way to pick and amount is tried."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product

import msgspec
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests import effort
from tests.planner_worlds import (
    ANY_OF,
    END,
    NAMES,
    Free,
    Infos,
    fits,
    free_at,
    free_steps,
    has_attribute,
    ways,
    worlds,
)

from kalends.broker.coordination.agents.agent_choice import Need, Option, cheapest
from kalends.broker.planning.assignment import Assignment, Shortage, heaviest
from kalends.broker.planning.planner import Plan, plan
from kalends.broker.planning.start_arrays import FreeArrays
from kalends.broker.planning.start_ranges import levels, ranges
from kalends.contract.messages import Want
from kalends.core.requests import (
    Alternative,
    Attribute,
    AttributePreference,
    Request,
    Term,
    TimePreference,
    span_of,
    term_interval,
)
from kalends.core.resources import ResourceInfo
from kalends.core.spans import Stage

WEIGHTS = st.sampled_from((1.0, 1.0, 2.0, -1.0, 0.1, 0.2, 0.3, 1e9, 5e-324, 0.0))
"""Few, so that sums are often equal; and some that floats add wrongly, or not at all."""

Claim = tuple[str, Term]


@st.composite
def weighted_terms(draw: st.DrawFn) -> Term:
    units = draw(st.sampled_from((1, 1, 2)))
    grows = draw(st.sampled_from((0, 0, 1, 3)))
    stage = {
        "units": units,
        "units_max": units + grows if grows else 0,
        "units_weight": draw(WEIGHTS) if grows else 1.0,
        "offset_s": draw(st.sampled_from((0, 0, 0, -4, 3))),
        "duration_s": draw(st.sampled_from((0, 0, 2, 6))),
    }
    if draw(st.integers(0, 2)) == 0:
        return Term(resource=draw(st.sampled_from(NAMES[:2])), **stage)
    preferences = st.builds(AttributePreference, attribute=st.sampled_from(ANY_OF), weight=WEIGHTS)
    return Term(
        attributes=(draw(st.sampled_from(ANY_OF)),),
        count=draw(st.sampled_from((1, 1, 2))),
        preferred=tuple(draw(st.lists(preferences, max_size=2))),
        **stage,
    )


@st.composite
def weighted_requests(draw: st.DrawFn) -> Request:
    terms = st.lists(weighted_terms(), min_size=1, max_size=3).map(tuple)
    alternatives = draw(
        st.lists(
            st.builds(Alternative, terms=terms, weight=st.just(0.0) | WEIGHTS),
            min_size=1,
            max_size=3,
        )
    )
    windows = st.tuples(st.integers(0, END), st.integers(1, 20), WEIGHTS)
    request = Request(
        alternatives=tuple(
            each.__class__(terms=tuple(_one_growing(each.terms)), weight=each.weight)
            for each in alternatives
        ),
        duration_s=draw(st.sampled_from((1, 2, 4, 6))),
        not_before=draw(st.integers(0, 12)),
        preferences=tuple(
            TimePreference(start=begin, end=begin + length, weight=weight)
            for begin, length, weight in draw(st.lists(windows, max_size=3))
        ),
    )
    lengths = [end - begin for begin, end in (span_of(request, each) for each in alternatives)]
    spare = draw(st.sampled_from((0, 5, 20, 30)))
    made = msgspec.structs.replace(request, not_after=request.not_before + max(lengths) + spare)
    made.check()
    return made


def _one_growing(terms: tuple[Term, ...]) -> Iterator[Term]:
    """Of each named resource only one amount may grow."""
    seen = set()
    for term in terms:
        if term.resource and term.units_max and term.resource in seen:
            yield msgspec.structs.replace(term, units_max=0, units_weight=1.0)
        else:
            yield term
            seen.add(term.resource if term.units_max else "")


def exact(weight: float) -> Fraction:
    return Fraction(repr(weight))


def worth(infos: Infos, claims: list[Claim]) -> Fraction:
    """What claims are worth; the units of each term are what is taken, units_max tells the least."""
    total = Fraction(0)
    for name, term in claims:
        for each in term.preferred:
            if has_attribute(infos[name], each.attribute):
                total += exact(each.weight)
    return total


def taken(claims: list[Claim]) -> Iterator[tuple[list[Claim], Fraction]]:
    """The same claims with every choice of amounts, and what the amounts are worth."""
    for amounts in product(
        *(range(term.units, max(term.units, term.units_max) + 1) for _, term in claims)
    ):
        total = Fraction(0)
        for (_, term), units in zip(claims, amounts, strict=True):
            if term.units_max > term.units:
                share = Fraction(units - term.units, term.units_max - term.units)
                total += exact(term.units_weight) * share
        yield (
            [
                (name, msgspec.structs.replace(term, units=units))
                for (name, term), units in zip(claims, amounts, strict=True)
            ],
            total,
        )


def all_ways(
    request: Request, number: int, infos: Infos, free: Free, t: int
) -> Iterator[tuple[list[Claim], Fraction]]:
    """Every way in which alternative `number` can stand at `t`, and what it is worth."""
    alternative = request.alternatives[number]
    of_time = sum(
        (exact(each.weight) for each in request.preferences if each.start <= t < each.end),
        exact(alternative.weight),
    )
    named = [(term.resource, term) for term in alternative.terms if term.resource]
    asked = [term for term in alternative.terms if term.attributes]
    if not fits(request, infos, free, named, t):
        return
    for way in ways(request, infos, asked, named):
        if fits(request, infos, free, way, t):
            for claims, of_amounts in taken(way):
                if fits(request, infos, free, claims, t):
                    yield claims, of_time + of_amounts + worth(infos, way)


def slow_plans(
    request: Request, infos: Infos, free: Free, count: int, excluded: set[tuple[int, int]]
) -> list[tuple[Fraction, int, int]]:
    """Weight, start and alternative of the best plans, by trying everything."""
    tried = []
    for number, alternative in enumerate(request.alternatives):
        begin_s, end_s = span_of(request, alternative)
        for t in range(request.not_before - begin_s, request.not_after - end_s + 1):
            if (number, t) not in excluded:
                effort.steps["starts of weighted requests"] += 1
                weights = [weight for _, weight in all_ways(request, number, infos, free, t)]
                if weights:
                    tried.append((-max(weights), t, number, end_s - begin_s))
    found: list[tuple[Fraction, int, int]] = []
    for weight, t, number, length_s in sorted(tried):
        overlaps = any(of == number and abs(t - other) < length_s for _, other, of in found)
        if not overlaps and len(found) < count:
            found.append((-weight, t, number))
    return found


def wants_of(request: Request, claims: list[Claim], t: int) -> list[Want]:
    wants = []
    for name, term in claims:
        stage = term_interval(request, term, t)
        wants.append(Want(name, stage.start, stage.end, term.units))
    return sorted(wants, key=lambda want: (want.resource, want.start, want.end, want.units))


def assert_is_a_best_way(request: Request, infos: Infos, free: Free, made: Plan) -> None:
    """The wants of a plan are a way of the greatest weight, whose growing amounts cannot be larger."""
    possible = list(all_ways(request, made.alternative, infos, free, made.start))
    best = max(weight for _, weight in possible)
    assert made.weight == float(best)
    alike = [
        claims
        for claims, weight in possible
        if weight == best and wants_of(request, claims, made.start) == list(made.wants)
    ]
    assert alike
    assert any(not can_grow(request, infos, free, claims, made) for claims in alike)


def can_grow(request: Request, infos: Infos, free: Free, claims: list[Claim], made: Plan) -> bool:
    for place, (name, term) in enumerate(claims):
        if term.units < term.units_max and term.units_weight >= 0:
            more = (name, msgspec.structs.replace(term, units=term.units + 1))
            larger = [*claims[:place], more, *claims[place + 1 :]]
            if fits(request, infos, free, larger, made.start):
                return True
    return False


@given(
    worlds(),
    weighted_requests(),
    st.integers(1, 4),
    st.sets(st.tuples(st.integers(0, 2), st.integers(0, END)), max_size=6),
)
@settings(max_examples=effort.examples(250), deadline=None)
def test_plans_are_the_best_of_trying_every_alternative_start_choice_and_amount(
    world: tuple[Infos, Free], request: Request, count: int, excluded: set[tuple[int, int]]
) -> None:
    infos, free = world
    plans = plan(request, infos, free, count=count, excluded=excluded)
    event(f"{min(len(plans), 2)} plans")
    expected = slow_plans(request, infos, free, count, excluded)
    assert [(made.start, made.alternative) for made in plans] == [each[1:] for each in expected]
    assert [made.weight for made in plans] == [float(weight) for weight, _, _ in expected]
    for made in plans:
        assert made.end == made.start + span_of(request, request.alternatives[made.alternative])[1]
        assert_is_a_best_way(request, infos, free, made)
    assert plan(request, infos, free, count=count, excluded=excluded) == plans


@given(
    st.lists(free_steps(), min_size=1, max_size=4),
    st.builds(Stage, st.integers(-3, 5), st.integers(1, 8), st.integers(1, 4)),
    st.integers(0, 3),
    st.integers(0, 20),
    st.integers(0, 40),
)
@settings(max_examples=effort.examples(200), deadline=None)
def test_many_calendars_at_once_say_what_each_says_alone(
    several: list[list[tuple[int, int, int]]], stage: Stage, more: int, first: int, length: int
) -> None:
    names = [f"a/{number}" for number in range(len(several))]
    free = dict(zip(names, several, strict=True))
    calendars = FreeArrays([*names, "b/unseen"], {**free, "b/unknown": [(0, 99, 9)]})
    asked = [*names[1:], "b/unknown", "b/unseen"]
    window = (first - stage.offset_s, first - stage.offset_s + length)
    found = calendars.ranges(asked, stage, window)
    alone = [
        (number, begin, end)
        for number, name in enumerate(asked)
        for begin, end in ranges(free.get(name, ()), stage, *window)
    ]
    assert list(zip(*(column.tolist() for column in found), strict=True)) == alone
    pieces, units = calendars.levels(asked, stage, stage.units + more, window)
    amounts = [
        (number, begin, end, amount)
        for number, name in enumerate(asked)
        for begin, end, amount in levels(free.get(name, ()), stage, stage.units + more, *window)
    ]
    assert list(zip(*(column.tolist() for column in (*pieces, units)), strict=True)) == amounts


def brute_assignment(wanted: list[int], worths: list[dict[str, int]]) -> int | None:
    """The greatest sum over every way to deal resources out, or None."""
    if not wanted:
        return 0
    best = None
    for names in combinations(sorted(worths[0]), wanted[0]):
        rest = brute_assignment(
            wanted[1:],
            [{n: w for n, w in each.items() if n not in names} for each in worths[1:]],
        )
        if rest is not None:
            total = sum(worths[0][name] for name in names) + rest
            best = total if best is None else max(best, total)
    return best


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.dictionaries(st.sampled_from("abcdefg"), st.integers(-3, 6), max_size=7),
        ),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=effort.examples(400), deadline=None)
def test_an_assignment_is_the_heaviest_of_all_and_its_prices_prove_it(
    terms: list[tuple[int, dict[str, int]]],
) -> None:
    wanted = [count for count, _ in terms]
    worths = [of_term for _, of_term in terms]
    effort.steps["assignments"] += 1
    expected = brute_assignment(wanted, worths)
    answer = heaviest(wanted, worths)
    event("served" if isinstance(answer, Assignment) else "short")
    if isinstance(answer, Shortage):
        assert expected is None
        together = {name for term in answer.terms for name in worths[term]}
        assert sum(wanted[term] for term in answer.terms) > len(together)
        return
    assert answer.worth == expected
    dealt = [name for names in answer.picked for name in names]
    assert len(dealt) == len(set(dealt))
    for count, of_term, names in zip(wanted, worths, answer.picked, strict=True):
        assert len(names) == count
        assert names == tuple(sorted(names))
        assert of_term.keys() >= set(names)
    assert answer.worth == sum(
        of_term[name]
        for of_term, names in zip(worths, answer.picked, strict=True)
        for name in names
    )
    bound = sum(count * price for count, price in zip(wanted, answer.prices, strict=True))
    for name in {name for of_term in worths for name in of_term}:
        excess = [
            of_term[name] - price
            for of_term, price in zip(worths, answer.prices, strict=True)
            if name in of_term
        ]
        bound += max(0, *excess)
    assert bound >= answer.worth
    if all(wanted):
        assert bound == answer.worth


@st.composite
def rivals(draw: st.DrawFn) -> tuple[Infos, Free, Request]:
    """Several terms that all want the same few resources, each for reasons of its own."""
    infos, free = {}, {}
    marks = ("p", "q", "r")
    for number in range(draw(st.integers(3, 7))):
        name = f"a/{number}"
        infos[name] = ResourceInfo(
            name=name,
            grain_s=draw(st.sampled_from((1, 1, 2, 3))),
            attributes={mark: draw(st.integers(0, 2)) for mark in marks},
        )
        free[name] = draw(free_steps())
    anything = (Attribute(name="site", operator="=", value="a"),)
    preferences = st.builds(
        AttributePreference,
        attribute=st.builds(
            Attribute,
            name=st.sampled_from(marks),
            operator=st.just(">="),
            value=st.integers(1, 2),
        ),
        weight=st.sampled_from((1.0, 2.0, 3.0, 5.0, -1.0)),
    )
    wanted = draw(st.lists(st.integers(1, 2), min_size=2, max_size=3))
    terms = tuple(
        Term(
            attributes=anything,
            count=count,
            preferred=tuple(draw(st.lists(preferences, min_size=1, max_size=3))),
        )
        for count in wanted
    )
    request = Request(
        alternatives=(Alternative(terms=terms),),
        duration_s=6,
        not_before=0,
        not_after=draw(st.integers(20, 60)),
    )
    return infos, free, request


@given(rivals(), st.integers(1, 3))
@settings(max_examples=effort.examples(200), deadline=None)
def test_terms_that_compete_find_the_start_at_which_they_do_best_together(
    world: tuple[Infos, Free, Request], count: int
) -> None:
    infos, free, request = world
    (alternative,) = request.alternatives
    tried = []
    for t in range(request.not_after - 5):
        effort.steps["starts of terms that compete"] += 1
        open_now = [
            name
            for name, info in infos.items()
            if t % info.grain_s == 0
            and 6 % info.grain_s == 0
            and all(free_at(free, name, second) for second in range(t, t + 6))
        ]
        worths = [
            {name: int(worth(infos, [(name, term)])) for name in open_now}
            for term in alternative.terms
        ]
        best = brute_assignment([term.count for term in alternative.terms], worths)
        if best is not None:
            tried.append((-best, t))
    expected: list[tuple[int, int]] = []
    for lost, t in sorted(tried):
        if len(expected) < count and all(abs(t - other) >= 6 for _, other in expected):
            expected.append((-lost, t))
    plans = plan(request, infos, free, count=count)
    event(f"{len(plans)} plans")
    assert [(made.weight, made.start) for made in plans] == expected


@given(
    st.lists(
        st.tuples(
            st.integers(1, 3),
            st.dictionaries(st.integers(0, 11).map(str), st.integers(0, 9), min_size=3),
        ),
        min_size=3,
        max_size=6,
    )
)
@settings(max_examples=effort.examples(400), deadline=None)
def test_larger_assignments_are_worth_what_the_cheapest_choice_of_ranks_costs(
    terms: list[tuple[int, dict[str, int]]],
) -> None:
    needs = [Need(number, wanted, 0) for number, (wanted, _) in enumerate(terms)]
    options = [
        Option(number, name, 9 - worth)
        for number, (_, worths) in enumerate(terms)
        for name, worth in worths.items()
    ]
    served = cheapest(needs, options)
    answer = heaviest([wanted for wanted, _ in terms], [worths for _, worths in terms])
    effort.steps["larger assignments"] += 1
    if served is None:
        assert isinstance(answer, Shortage)
    else:
        assert isinstance(answer, Assignment)
        assert answer.worth == sum(9 - option.rank for option in served)
