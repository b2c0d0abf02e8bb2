"""The planner against a slow obvious twin: every start of the window, every way to pick resources."""

from __future__ import annotations

from itertools import combinations

import msgspec
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kalends.broker.explaining import explain
from kalends.broker.planner import Plan, plan
from kalends.broker.starts import Stage, added, intersection, most_together, ranges
from kalends.core.beats import Beat
from kalends.core.messages import Want
from kalends.core.requests import Alternative, Attribute, Request, Term, span, term_interval
from kalends.core.resources import ResourceInfo

NAMES = ("a/one", "a/two", "b/one", "b/two", "b/x")
KINDS = ("red", "blue")
END = 40

Free = dict[str, list[tuple[int, int, int]]]
Infos = dict[str, ResourceInfo]


@st.composite
def free_steps(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Sorted disjoint steps within the window, touching or with gaps, from a list of lengths."""
    steps, at = [], draw(st.sampled_from((0, 0, 3, 9)))
    for length, gap, units in draw(
        st.lists(
            st.tuples(
                st.integers(3, 15), st.sampled_from((0, 0, 1, 3)), st.sampled_from((1, 3, 4))
            ),
            min_size=1,
            max_size=6,
        )
    ):
        steps.append((at, at + length, units))
        at += length + gap
    return steps


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Infos, Free]:
    infos, free = {}, {}
    for name in NAMES[: draw(st.integers(2, len(NAMES)))]:
        infos[name] = ResourceInfo(
            name=name,
            capacity=4,
            grain_s=draw(st.sampled_from((1, 1, 2, 2, 3, 4))),
            attributes={"kind": draw(st.sampled_from(KINDS)), "fast": draw(st.booleans())},
        )
        if draw(st.integers(0, 19)):
            free[name] = draw(free_steps())
    return infos, free


ANY_OF = (
    *(Attribute(name="kind", operator="=", value=kind) for kind in KINDS),
    Attribute(name="kind", operator="in", value=KINDS),
    Attribute(name="fast", operator="=", value=True),
    Attribute(name="site", operator="=", value="b"),
)


@st.composite
def terms(draw: st.DrawFn) -> Term:
    stage = {
        "units": draw(st.sampled_from((1, 1, 2, 3))),
        "offset_s": draw(st.sampled_from((0, 0, 0, -4, -2, 3, 6))),
        "duration_s": draw(st.sampled_from((0, 0, 2, 6))),
    }
    if draw(st.booleans()):
        return Term(resource=draw(st.sampled_from(NAMES[:2])), **stage)
    return Term(
        attributes=(draw(st.sampled_from(ANY_OF)),),
        count=draw(st.sampled_from((1, 1, 2, 3))),
        **stage,
    )


@st.composite
def requests(draw: st.DrawFn) -> Request:
    request = Request(
        alternatives=(Alternative(terms=tuple(draw(st.lists(terms(), min_size=1, max_size=3)))),),
        duration_s=draw(st.sampled_from((1, 2, 4, 6))),
        not_before=draw(st.integers(0, 12)),
    )
    lead_s, tail_s = span(request)
    spare = draw(st.sampled_from((0, 5, 20, 40)))
    return msgspec.structs.replace(request, not_after=request.not_before + tail_s - lead_s + spare)


def free_at(free: Free, name: str, second: int) -> int:
    return sum(units for start, end, units in free.get(name, ()) if start <= second < end)


def fits(
    request: Request, infos: Infos, free: Free, claims: list[tuple[str, Term]], t: int
) -> bool:
    """Whether the claims (resource and term) can stand at start `t`, second by second."""
    for name, term in claims:
        stage = term_interval(request, term, t)
        if (
            name not in infos
            or stage.start % infos[name].grain_s
            or stage.end % infos[name].grain_s
        ):
            return False
        for second in range(stage.start, stage.end):
            asked = sum(
                other.units
                for other_name, other in claims
                if other_name == name
                and term_interval(request, other, t).start <= second
                and second < term_interval(request, other, t).end
            )
            if asked > free_at(free, name, second):
                return False
    return True


def chained(request: Request, one: Term, other: Term, others: list[Term]) -> bool:
    """Whether two terms overlap, directly or by way of others: grown until it grows no more."""
    reached = [one]
    while True:
        more = [
            term
            for term in others
            if term not in reached
            and any(
                term_interval(request, term, 0).overlaps(term_interval(request, known, 0))
                for known in reached
            )
        ]
        if not more:
            return other in reached
        reached += more


def has_attributes(info: ResourceInfo, term: Term) -> bool:
    (comparison,) = term.attributes
    values = {**info.attributes, "site": info.name.split("/")[0]}
    wanted = comparison.value if isinstance(comparison.value, tuple) else (comparison.value,)
    return values[comparison.name] in wanted


def ways(request: Request, infos: Infos, terms_left: list[Term], taken: list[tuple[str, Term]]):
    """Every way to pick resources for the attribute terms, added to what is taken."""
    if not terms_left:
        yield taken
        return
    term, rest = terms_left[0], terms_left[1:]
    all_terms = list(request.alternatives[0].terms)
    askers = [other for other in all_terms if other.attributes]
    stage = term_interval(request, term, 0)
    allowed = []
    for name in infos:
        clash = any(
            taken_name == name
            and (
                stage.overlaps(term_interval(request, other, 0))
                if other.resource
                else chained(request, term, other, askers)
            )
            for taken_name, other in taken
        )
        if not clash and has_attributes(infos[name], term):
            allowed.append(name)
    for names in combinations(allowed, term.count):
        yield from ways(request, infos, rest, [*taken, *((name, term) for name in names)])


def suits(request: Request, infos: Infos, free: Free, t: int) -> bool:
    all_terms = request.alternatives[0].terms
    named = [(term.resource, term) for term in all_terms if term.resource]
    if not fits(request, infos, free, named, t):
        return False
    asked = [term for term in all_terms if term.attributes]
    return any(fits(request, infos, free, way, t) for way in ways(request, infos, asked, named))


def slow_starts(request: Request, infos: Infos, free: Free, count: int, excluded: set[int]):
    lead_s, tail_s = span(request)
    found, t = [], request.not_before - lead_s
    while t <= request.not_after - tail_s and len(found) < count:
        if t not in excluded and suits(request, infos, free, t):
            found.append(t)
            t += tail_s - lead_s
        else:
            t += 1
    return found


def assert_stands(request: Request, infos: Infos, free: Free, made: Plan) -> None:
    """The wants of a plan are one way to meet the terms: they can be dealt out to them."""
    assert list(made.wants) == sorted(made.wants, key=lambda want: (want.resource, want.start))
    assert made.end == made.start + span(request)[1]
    all_terms = request.alternatives[0].terms
    named = [(term.resource, term) for term in all_terms if term.resource]
    asked = [term for term in all_terms if term.attributes]

    def wants_of(way: list[tuple[str, Term]]) -> list[Want]:
        wants = []
        for name, term in way:
            stage = term_interval(request, term, made.start)
            wants.append(Want(name, stage.start, stage.end, term.units))
        return sorted(wants, key=repr)

    assert any(
        wants_of(way) == sorted(made.wants, key=repr)
        and fits(request, infos, free, way, made.start)
        for way in ways(request, infos, asked, named)
    )


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
    common = list(intersection(ours, theirs))
    assert _members(common) == _members(ours) & _members(theirs)
    assert common == sorted(common)


@given(st.lists(range_lists, max_size=5))
def test_most_together_is_the_largest_count_at_any_one_start(
    lists: list[list[tuple[int, int]]],
) -> None:
    members = [_members(each) for each in lists]
    counts = [sum(t in each for each in members) for t in range(80)]
    assert most_together(lists) == max(counts)
