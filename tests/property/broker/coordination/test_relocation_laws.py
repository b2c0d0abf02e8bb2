"""Where a reclaimed reservation goes, against a twin that tries every start and every other resource."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests import effort

from kalends.broker.coordination.owners.relocation import (
    REACH_S,
    Relocation,
    Wants,
    relocation_of,
    replacement,
)
from kalends.broker.coordination.record.decision_record import Record, Spec
from kalends.contract.messages import Want
from kalends.core.requests import Alternative, Attribute, Request, Term
from kalends.core.resources import ResourceInfo
from kalends.core.windows import Daily

NOW = 1_800_000_000
HOUR = 3_600
NAMES = ("a/one", "a/two", "b/one", "b/two")

Steps = tuple[tuple[int, int, int], ...]


@st.composite
def steps(draw: st.DrawFn) -> Steps:
    """Free time of one resource, on whole hours."""
    found = []
    at = 0
    for _ in range(draw(st.integers(0, 6))):
        start = at + draw(st.integers(0, 4))
        at = start + draw(st.integers(1, 6))
        found.append((NOW + start * HOUR, NOW + at * HOUR, draw(st.integers(1, 3))))
    return tuple(found)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Relocation, dict[str, ResourceInfo], dict[str, Steps]]:
    infos = {
        name: ResourceInfo(name=name, capacity=3, grain_s=draw(st.sampled_from([1, 2, 3])) * HOUR)
        for name in NAMES
    }
    free = {name: draw(steps()) for name in NAMES if draw(st.integers(0, 9))}
    among = draw(st.sampled_from([NAMES, NAMES[:1], NAMES[1:3]]))
    used = draw(st.lists(st.sampled_from(among), min_size=1, max_size=3))
    wants = []
    for name in used:
        grain_h = infos[name].grain_s // HOUR
        start = draw(st.integers(0, 24 // grain_h)) * grain_h
        end = start + draw(st.integers(1, 2)) * grain_h
        units = draw(st.integers(1, 2))
        wants.append(Want(name, NOW + start * HOUR, NOW + end * HOUR, units))
    spare = [name for name in NAMES if name not in used]
    others = {}
    for name in sorted(set(used)):
        found = tuple(sorted(draw(st.lists(st.sampled_from(spare), unique=True)))) if spare else ()
        if found and draw(st.booleans()):
            others[name] = found
    first = NOW + draw(st.integers(0, 12)) * HOUR
    last = first + draw(st.integers(0, 36)) * HOUR
    return Relocation(tuple(wants), tuple(wants), first, last, others), infos, free


def suits(
    wants: Wants, moved: Relocation, infos: dict[str, ResourceInfo], free: dict[str, Steps]
) -> bool:
    """Hour by hour: within the window, on the grain, and free for all together."""
    for want in wants:
        grain_s = infos[want.resource].grain_s
        if want.start % grain_s or want.end % grain_s:
            return False
        if want.start < moved.first or want.end > moved.last:
            return False
        for at in range(want.start, want.end, HOUR):
            together = sum(
                w.units for w in wants if w.resource == want.resource and w.start <= at < w.end
            )
            here = (u for start, end, u in free.get(want.resource, ()) if start <= at < end)
            if sum(here) < together:
                return False
    return True


def slow(
    moved: Relocation, infos: dict[str, ResourceInfo], free: dict[str, Steps], tried: set[Wants]
) -> Wants | None:
    begin = min(want.start for want in moved.wants)
    giving = sorted(moved.others)
    spare = [name for name in NAMES if name not in {want.resource for want in moved.wants}]
    ways: list[list[dict[str, str]]] = [[{}], []]
    if giving:
        ways[1] = [
            dict(zip(giving, names, strict=True))
            for names in permutations(spare, len(giving))
            if all(name in moved.others[old] for old, name in zip(giving, names, strict=True))
        ]
    for of_kind in ways:
        best: tuple[int, int, tuple[str, ...], Wants] | None = None
        for instead in of_kind:
            for shift in range(-80, 81):
                wants = tuple(
                    structs.replace(
                        want,
                        resource=instead.get(want.resource, want.resource),
                        start=want.start + shift * HOUR,
                        end=want.end + shift * HOUR,
                    )
                    for want in moved.wants
                )
                if wants in tried or wants == moved.wants or not suits(wants, moved, infos, free):
                    continue
                key = (abs(shift), begin + shift * HOUR, tuple(instead.get(n, "") for n in giving))
                if best is None or key < best[:3]:
                    best = (*key, wants)
        if best is not None:
            return best[3]
    return None


@given(worlds())
@settings(max_examples=effort.examples(150), deadline=None)
def test_the_nearest_time_that_suits_all_parts_is_found_and_the_next_when_that_fails(
    world: tuple[Relocation, dict[str, ResourceInfo], dict[str, Steps]],
) -> None:
    moved, infos, free = world
    tried: set[Wants] = set()
    for _ in range(3):
        found = replacement(moved, infos, free, tried)
        assert found == slow(moved, infos, free, tried)
        effort.steps["places for what was reclaimed"] += 1
        if found is None:
            return
        tried.add(found)


def reserved(*terms: Term, first: int, last: int, wants: tuple[Want, ...]) -> Record:
    request = Request(
        alternatives=(Alternative(terms=terms),),
        duration_s=HOUR,
        not_before=first,
        not_after=last,
    )
    return Record(
        rid="r", user="ann", key="k", digest="d", stamp=1, owner="o", reservation="r",
        created_ms=0, spec=Spec(request), wants=wants, state="commit",
    )  # fmt: skip


INFOS = {
    "a/one": ResourceInfo(name="a/one", attributes={"kind": "sgi"}),
    "a/two": ResourceInfo(name="a/two", attributes={"kind": "sgi"}, capacity=2),
    "b/one": ResourceInfo(name="b/one", attributes={"kind": "sp2"}),
    "b/two": ResourceInfo(name="b/two", attributes={"kind": "sgi"}, horizon_s=90 * 86_400),
}
AT = NOW + 40 * 86_400
SLOT = (Want("a/one", AT, AT + HOUR, 1),)


def test_a_request_keeps_its_window_and_one_that_left_no_choice_reaches_four_weeks() -> None:
    term = Term(resource="a/one")
    flexible = reserved(term, first=AT - HOUR, last=AT + 9 * HOUR, wants=SLOT)
    moved = relocation_of(flexible, ["a/one"], INFOS, NOW)
    assert (moved.first, moved.last) == (AT - HOUR, AT + 9 * HOUR)
    fixed = reserved(term, first=AT, last=AT + HOUR, wants=SLOT)
    moved = relocation_of(fixed, ["a/one"], INFOS, NOW)
    assert (moved.first, moved.last) == (AT - REACH_S, AT + HOUR + REACH_S)
    endless = reserved(term, first=NOW, last=0, wants=SLOT)
    assert relocation_of(endless, ["a/one"], INFOS, NOW + HOUR).first == NOW + HOUR


def test_a_reservation_is_moved_within_the_windows_of_its_request_alone() -> None:
    """Two slots around noon; the other free times are a later afternoon, and the next noon."""
    noon = AT - AT % 86_400 + 12 * HOUR
    terms = (
        Term(resource="a/one", windows=(Daily("11:00", "14:00", "UTC"),)),
        Term(resource="b/one", offset_s=HOUR),
    )
    wants = (Want("a/one", noon, noon + HOUR, 1), Want("b/one", noon + HOUR, noon + 2 * HOUR, 1))
    steps = ((noon + 3 * HOUR, noon + 6 * HOUR, 1), (noon + 23 * HOUR, noon + 27 * HOUR, 1))
    free = {"a/one": steps, "b/one": steps}
    for windowed, begin in (
        (terms, noon + 23 * HOUR),
        ((Term(resource="a/one"), terms[1]), noon + 3 * HOUR),
    ):
        record = reserved(*windowed, first=noon - HOUR, last=0, wants=wants)
        found = replacement(relocation_of(record, ["a/one"], INFOS, NOW), INFOS, free)
        assert found is not None
        assert found[0].start == begin
    # The first has begun: only the other is moved, and it has no window.
    record = reserved(*terms, first=noon - HOUR, last=0, wants=wants)
    moved = relocation_of(record, ["b/one"], INFOS, noon + 60)
    found = replacement(moved, INFOS, free)
    assert found == (Want("b/one", noon + 3 * HOUR, noon + 4 * HOUR, 1),)


def test_nobody_is_moved_beyond_what_an_owner_books() -> None:
    wants = (Want("b/two", AT + 30 * 86_400, AT + 30 * 86_400 + HOUR, 1),)
    fixed = reserved(Term(resource="b/two"), first=wants[0].start, last=wants[0].end, wants=wants)
    assert relocation_of(fixed, ["b/two"], INFOS, NOW).last == NOW + 90 * 86_400


SGI = Term(attributes=(Attribute(name="kind", operator="=", value="sgi"),))


def test_only_what_attributes_picked_may_give_way_to_others_of_its_site_that_have_them() -> None:
    picked = reserved(Term(resource="b/one"), SGI, first=NOW, last=0, wants=SLOT)
    assert relocation_of(picked, ["a/one"], INFOS, NOW).others == {"a/one": ("a/two",)}
    assert relocation_of(picked, ["b/one"], INFOS, NOW).others == {}
    named = reserved(Term(resource="a/one"), SGI, first=NOW, last=0, wants=SLOT)
    assert relocation_of(named, ["a/one"], INFOS, NOW).others == {}
    large = (Want("a/two", AT, AT + HOUR, 2),)
    many = reserved(SGI, first=NOW, last=0, wants=large)
    assert relocation_of(many, ["a/two"], INFOS, NOW).others == {}
