"""Small worlds to plan in, and the slow obvious way to say what suits: second by second, way by way."""

from __future__ import annotations

from itertools import combinations

import msgspec
from hypothesis import strategies as st

from kalends.broker.planning.planner import Plan
from kalends.contract.messages import Want
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
            if not any(term is known for known in reached)
            and any(
                term_interval(request, term, 0).overlaps(term_interval(request, known, 0))
                for known in reached
            )
        ]
        if not more:
            return any(other is known for known in reached)
        reached += more


def has_attributes(info: ResourceInfo, term: Term) -> bool:
    return all(has_attribute(info, comparison) for comparison in term.attributes)


def has_attribute(info: ResourceInfo, comparison: Attribute) -> bool:
    value = {**info.attributes, "site": info.name.split("/")[0]}[comparison.name]
    if comparison.operator == ">=":
        return value >= comparison.value
    wanted = comparison.value if isinstance(comparison.value, tuple) else (comparison.value,)
    return value in wanted


def ways(request: Request, infos: Infos, terms_left: list[Term], taken: list[tuple[str, Term]]):
    """Every way to pick resources for the attribute terms, added to what is taken."""
    if not terms_left:
        yield taken
        return
    term, rest = terms_left[0], terms_left[1:]
    askers = [each for each in [*terms_left, *(term for _, term in taken)] if each.attributes]
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
