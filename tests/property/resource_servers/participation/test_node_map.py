"""Which units of nodes are free, and for how long in one piece, compared with a count of every second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from kalends.resource_servers.participation.provision.extents import Extent, envelope
from kalends.resource_servers.participation.provision.node_map import beside, choose, fragments

NODES = ("a", "b", "c")
LAST = 30

rooms = st.fixed_dictionaries(dict.fromkeys(NODES, st.integers(1, 3)))
extents = st.lists(
    st.builds(
        lambda start, length, nodes: Extent(start, start + length, tuple(sorted(nodes))),
        st.integers(0, LAST), st.integers(1, 10), st.lists(st.sampled_from(NODES), min_size=1, max_size=4),
    ),
    max_size=6,
)  # fmt: skip

gaps = st.integers(0, 3)


def used(taken: Iterable[Extent], node: str, at: int) -> int:
    return sum(each.nodes.count(node) for each in taken if each.start <= at < each.end)


def free(room: dict[str, int], taken: list[Extent], node: str, start: int, end: int) -> int:
    """The units of a node that are free at every second."""
    return max(0, room[node] - max(used(taken, node, at) for at in range(start, end)))


@given(rooms, extents, st.integers(0, 10), st.integers(1, 12), gaps)
def test_at_each_second_as_many_units_are_fragments_as_are_free_for_too_short(
    room: dict[str, int], taken: list[Extent], since: int, length_s: int, gap_s: int
) -> None:
    found = fragments(room, taken, since, LAST, length_s, gap_s=gap_s)
    apart = [each._replace(end=each.end + gap_s) for each in taken]
    for at in range(since, LAST):
        short = 0
        for node in NODES:
            starts = range(max(since, at - length_s + 1), at + 1)
            longest = max(free(room, apart, node, each, each + length_s + gap_s) for each in starts)
            short += free(room, taken, node, at, at + 1) - longest
        assert sum(units for start, end, units in found if start <= at < end) == short


@given(rooms, extents, st.integers(0, LAST), st.integers(1, 12), st.integers(1, 6), gaps)
def test_where_units_can_be_chosen_not_all_that_is_free_is_a_fragment(
    room: dict[str, int], taken: list[Extent], start: int, length_s: int, units: int, gap_s: int
) -> None:
    if choose(room, taken, start, start + length_s, units, gap_s=gap_s) is None:
        return
    found = fragments(room, taken, start, LAST + 1, length_s, gap_s=gap_s)
    for at in range(start, start + length_s):
        there = sum(free(room, taken, node, at, at + 1) for node in NODES)
        lost = sum(each for begin, end, each in found if begin <= at < end)
        assert there - lost >= units


@given(
    rooms, extents, st.integers(0, LAST), st.integers(1, 10), st.integers(1, 7),
    st.lists(st.sampled_from(NODES), max_size=4), st.sets(st.sampled_from(NODES)),
)  # fmt: skip
def test_what_is_chosen_is_free_keeps_what_it_can_and_lies_on_as_few_nodes_as_possible(
    room: dict[str, int], taken: list[Extent], start: int, length_s: int, units: int,
    kept: list[str], avoided: set[str],
) -> None:  # fmt: skip
    end = start + length_s
    most = {node: free(room, taken, node, start, end) for node in NODES}
    found = choose(room, taken, start, end, units, kept=kept, avoided=avoided)
    if sum(most.values()) < units:
        assert found is None
        return
    assert found is not None
    assert list(found) == sorted(found)
    assert len(found) == units
    picked = Counter(found)
    assert all(picked[node] <= most[node] for node in NODES)
    keepable = sum(min(count, most[node]) for node, count in Counter(kept).items())
    assert (picked & Counter(kept)).total() == min(keepable, units)
    if not kept and not avoided:
        fitting = (
            set(some)
            for some in product(NODES, repeat=3)
            if sum(map(most.get, {*some})) >= units  # type: ignore[arg-type]  # all have one
        )
        assert len(picked) == min(map(len, fitting))


@given(rooms, extents, extents)
def test_what_lies_beside_and_what_lies_on_ours_are_all_that_a_node_can_have_of_it(
    room: dict[str, int], theirs: list[Extent], ours: list[Extent]
) -> None:
    fitting, lying_on = beside(room, theirs, ours)
    for node, at in product(NODES, range(LAST + 12)):
        there = min(room[node], used(theirs, node, at))
        fits = min(there, max(0, room[node] - used(ours, node, at)))
        assert used(fitting, node, at) == fits
        assert used(lying_on, node, at) == there - fits


@given(extents.filter(bool))
def test_an_envelope_has_of_each_node_the_most_that_any_has_for_all_their_time(
    several: list[Extent],
) -> None:
    found = envelope(several)
    assert found[:2] == (min(each.start for each in several), max(each.end for each in several))
    for node in NODES:
        assert found.nodes.count(node) == max(each.nodes.count(node) for each in several)
