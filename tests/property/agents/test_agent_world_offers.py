"""Offers against a slow obvious twin that tries every second of a small window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.agents.world.common_starts import kept
from kalends.agents.world.feasible_starts import evenly, least_free
from kalends.agents.world.offers import Offer, offered, offers
from kalends.agents.world.visible_calendar import Shown
from kalends.core.progressions import Beat
from kalends.core.resources import ResourceInfo, Slot
from kalends.core.scripts import Ask, Starts
from kalends.core.spans import Step, intersection, union

END = 60
NAMES = ("here/a", "here/b", "here/c")
ALL = 10_000


@st.composite
def free_steps(draw: st.DrawFn) -> tuple[Step, ...]:
    steps, at = [], draw(st.integers(0, 12))
    lengths = st.tuples(st.integers(1, 25), st.sampled_from((0, 0, 1, 5)), st.integers(1, 3))
    for length, gap, units in draw(st.lists(lengths, max_size=6)):
        steps.append((at, at + length, units))
        at += length + gap
    return tuple(steps)


@st.composite
def taken_slots(draw: st.DrawFn) -> tuple[Slot, ...]:
    slots = []
    for start, length, mine in draw(
        st.lists(st.tuples(st.integers(0, END), st.integers(1, 9), st.booleans()), max_size=3)
    ):
        slots.append(Slot(start, start + length, 1, "locked", "ada" if mine else ""))
    return tuple(slots)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, Shown], tuple[Ask, ...], Starts]:
    shown = {
        name: Shown(
            ResourceInfo(name=name, capacity=3, grain_s=draw(st.sampled_from((1, 1, 2, 3, 5)))),
            draw(free_steps()),
            draw(taken_slots()),
            "ada",
        )
        for name in NAMES
    }
    asks = {
        (term, resource): Ask(
            term=term,
            resource=resource,
            length_s=draw(st.sampled_from((1, 2, 4, 6, 10))),
            units=draw(st.integers(1, 3)),
            offset_s=draw(st.sampled_from((0, 0, -3, 4))),
        )
        for term, resource in draw(
            st.lists(
                st.tuples(st.integers(0, 2), st.sampled_from((*NAMES, "here/none"))),
                min_size=1,
                max_size=5,
            )
        )
    }
    first = draw(st.integers(3, 30))
    starts = Starts(
        first=first,
        last=draw(st.integers(first, END)),
        step_s=draw(st.sampled_from((1, 2, 3, 7))),
        only=tuple(draw(st.lists(st.integers(0, END), max_size=3))),
    )
    return shown, tuple(asks.values()), starts


def free_at(steps: Sequence[Step], time_s: int) -> int:
    return sum(units for start, end, units in steps if start <= time_s < end)


def free_during(steps: Sequence[Step], start: int, end: int) -> int:
    return min(free_at(steps, time_s) for time_s in range(start, end))


def fits(here: Shown, ask: Ask, common: int) -> bool:
    start = common + ask.offset_s
    end = start + ask.length_s
    grain = here.info.grain_s
    return start % grain == 0 == end % grain and free_during(here.free, start, end) >= ask.units


def slow_offers(
    shown: Mapping[str, Shown], asks: Sequence[Ask], starts: Starts
) -> dict[int, set[tuple[object, ...]]]:
    """By common start: all slots, from every start of the window that is worth offering."""
    own = [slot for here in shown.values() for slot in here.taken if slot.holder == "ada"]
    window = range(starts.first, starts.last + 1)
    wanted = set(starts.only or range(starts.first, starts.last + 1, starts.step_s))
    for ask in asks if not starts.only else ():
        if ask.resource not in shown:
            continue
        here = shown[ask.resource]
        grain = here.info.grain_s
        beside = set()
        for slot in own:
            beside.add(
                next(time_s for time_s in range(slot.end, slot.end + grain) if time_s % grain == 0)
            )
            end = next(
                time_s
                for time_s in range(slot.start, slot.start - grain, -1)
                if time_s % grain == 0
            )
            beside.add(end - ask.length_s)
        in_stretch = False
        for common in window:
            start = common + ask.offset_s
            room = free_during(here.free, start, start + ask.length_s) >= ask.units
            if not room:
                in_stretch = False
            elif fits(here, ask, common) and (start in beside or not in_stretch):
                wanted.add(common)
                in_stretch = True
    found: dict[int, set[tuple[object, ...]]] = {}
    for common in sorted(wanted & set(window)):
        for ask in asks:
            here = shown.get(ask.resource)
            if here is not None and fits(here, ask, common):
                start = common + ask.offset_s
                end = start + ask.length_s
                found.setdefault(common, set()).add(
                    (
                        ask.term,
                        ask.resource,
                        start,
                        end,
                        ask.units,
                        free_during(here.free, start, end),
                        common,
                    )
                )
    return found


def by_common(found: Sequence[Offer]) -> dict[int, set[tuple[object, ...]]]:
    groups: dict[int, set[tuple[object, ...]]] = {}
    for offer in found:
        groups.setdefault(offer.common, set()).add(tuple(offer[1:]))
    return groups


@given(worlds())
@settings(max_examples=effort.examples(150), deadline=None)
def test_where_there_is_room_for_all_offers_are_exactly_those_of_the_twin(
    world: tuple[dict[str, Shown], tuple[Ask, ...], Starts],
) -> None:
    found = offers(*world, ALL)
    event(f"{min(len(found), 20)} offers")
    assert by_common(found) == slow_offers(*world)
    assert len(set(found)) == len(found)


@given(worlds())
@settings(max_examples=effort.examples(80), deadline=None)
def test_offers_are_numbered_by_common_start_term_and_resource(
    world: tuple[dict[str, Shown], tuple[Ask, ...], Starts],
) -> None:
    found = offers(*world, ALL)
    assert [offer.id for offer in found] == list(range(len(found)))
    assert found == sorted(found, key=lambda offer: (offer.common, offer.term, offer.resource))


@given(worlds(), st.integers(1, 30))
@settings(max_examples=effort.examples(150), deadline=None)
def test_too_many_offers_are_thinned_by_whole_common_starts_and_never_changed(
    world: tuple[dict[str, Shown], tuple[Ask, ...], Starts], count_max: int
) -> None:
    shown, asks, starts = world
    there_is = slow_offers(shown, asks, starts)
    size = sum(len(group) for group in there_is.values())
    found = offers(shown, asks, starts, count_max)
    groups = by_common(found)
    largest = max((len(group) for group in there_is.values()), default=0)
    event("all" if size <= count_max else "thinned")
    if size <= count_max:
        assert groups == there_is
        return
    assert found
    assert len(found) <= count_max
    every_second = {
        common: {
            tuple(offer)
            for offer in slow_offers(shown, asks, Starts(first=common, last=common, step_s=1)).get(
                common, ()
            )
        }
        for common in groups
    }
    for common, group in groups.items():
        assert group <= every_second[common]
        if len(groups) > 1:
            assert group == every_second[common]
    if count_max >= 4 * largest:
        assert min(groups) == min(there_is)
        assert max(groups) == max(there_is)


@given(worlds())
@settings(max_examples=effort.examples(80), deadline=None)
def test_runs_of_offered_starts_unfold_to_the_starts_of_the_offers(
    world: tuple[dict[str, Shown], tuple[Ask, ...], Starts],
) -> None:
    found = offers(*world, ALL)
    step_s = world[2].step_s
    unfolded = {
        (each.term, each.resource, common)
        for each in offered(found, step_s)
        for first, last in each.runs
        for common in range(first, last + 1, step_s)
    }
    assert unfolded == {(offer.term, offer.resource, offer.common) for offer in found}
    for each in offered(found, step_s):
        assert all(
            first <= last < later
            for (first, last), (later, _) in zip(each.runs, each.runs[1:], strict=False)
        )


@given(
    st.dictionaries(
        st.integers(0, 500), st.tuples(st.integers(1, 6), st.integers(1, 3)), max_size=60
    ),
    st.lists(st.integers(0, 500), max_size=3),
    st.integers(1, 120),
)
@settings(max_examples=effort.examples(300), deadline=None)
def test_thinning_fills_the_room_and_prefers_the_first_the_last_and_the_fullest(
    groups: dict[int, tuple[int, int]], beside: list[int], slots_max: int
) -> None:
    sizes = {common: size for common, (size, _) in groups.items()}
    terms = {common: many for common, (_, many) in groups.items()}
    chosen = kept(sizes, terms, beside, slots_max)
    size = sum(sizes[common] for common in chosen)
    if sum(sizes.values()) <= slots_max:
        assert chosen == sorted(sizes)
        return
    assert chosen
    assert size <= slots_max or len(chosen) == 1
    assert size > slots_max - 2 * 6
    if slots_max >= 7 * 6:
        fullest = {common for common in sizes if terms[common] == max(terms.values())}
        wanted = {min(sizes), max(sizes), min(fullest), max(fullest), *beside} & set(sizes)
        assert wanted <= set(chosen)
        if len(set(chosen) & fullest) < len(fullest):
            assert set(chosen) <= fullest | wanted


@given(st.integers(1, 400), st.integers(2, 60))
def test_ranks_are_spread_evenly_from_the_first_to_the_last(size: int, count_max: int) -> None:
    ranks = list(evenly(size, count_max))
    assert len(ranks) == min(size, count_max)
    assert (ranks[0], ranks[-1]) == (0, size - 1)
    steps = {later - earlier for earlier, later in pairwise(ranks)}
    assert max(steps, default=1) - min(steps, default=1) <= 1


ranges = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)), max_size=6).map(
    lambda pairs: [(first, first + length) for first, length in pairs]
)


def seconds(found: Sequence[tuple[int, int]]) -> set[int]:
    return {time_s for first, last in found for time_s in range(first, last + 1)}


@given(ranges, ranges)
def test_ranges_are_joined_and_cut_second_by_second(
    ours: list[tuple[int, int]], theirs: list[tuple[int, int]]
) -> None:
    joined = union([ours, theirs])
    assert seconds(joined) == seconds(ours) | seconds(theirs)
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(joined))
    assert seconds(intersection(union([ours]), union([theirs]))) == seconds(ours) & seconds(theirs)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 50), st.integers(0, 50))
def test_a_beat_and_two_beats_together_hit_what_their_remainders_say(
    one: int, other: int, first: int, length: int
) -> None:
    left, right = Beat(one, 7 % one), Beat(other, 3 % other)
    times = range(first, first + length + 1)
    hits = [time_s for time_s in times if time_s % one == 7 % one]
    assert left.number_in(first, first + length) == len(hits)
    both = left.both(right)
    shared = [time_s for time_s in hits if time_s % other == 3 % other]
    assert shared == ([] if both is None else [time_s for time_s in times if both.hits(time_s)])


@given(free_steps(), st.lists(st.integers(0, END), max_size=12), st.integers(1, 12))
@settings(max_examples=effort.examples(300))
def test_the_least_free_units_are_those_of_the_worst_second(
    steps: tuple[Step, ...], starts: list[int], length_s: int
) -> None:
    ordered = sorted(starts)
    assert least_free(steps, ordered, length_s) == [
        free_during(steps, start, start + length_s) for start in ordered
    ]
