"""Level packing against slow twins, against the best packing there is, and against its own definitions."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.core.errors import InvalidInput
from kalends.scheduling.levels import RULES, PackingRule, makespan_s, pack

Requests = list[tuple[int, int]]


def requests(nodes: int, most: int) -> st.SearchStrategy[Requests]:
    one = st.tuples(st.integers(1, nodes), st.integers(1, 9))
    return st.lists(one, min_size=1, max_size=most)


def used(requests: Requests, starts: dict[int, int], time: int) -> int:
    return sum(
        nodes
        for index, (nodes, length) in enumerate(requests)
        if index in starts and starts[index] <= time < starts[index] + length
    )


def slow_pack(name: str, requests: Requests, nodes: int) -> list[int]:
    """Second by second, from the words of section 3.2."""
    order = list(range(len(requests)))
    if name.startswith("ffdh"):
        order.sort(key=lambda index: -requests[index][1])
    elif name.startswith("ffih"):
        order.sort(key=lambda index: requests[index][1])
    starts: dict[int, int] = {}

    def fits(index: int, start: int) -> bool:
        wide, length = requests[index]
        return all(
            used(requests, starts, time) + wide <= nodes for time in range(start, start + length)
        )

    if name == "fcfs*":
        for index in order:
            starts[index] = next(start for start in range(10_000) if fits(index, start))
        return [starts[index] for index in range(len(requests))]
    levels: list[list[int]] = []
    for index in order:
        length = requests[index][1]
        for number, level in enumerate(levels):
            begin = level[0]
            end = level[1]
            if name.endswith("*"):
                inside = [t for t in range(begin, end - length + 1) if fits(index, t)]
            else:
                inside = [begin] if begin + length <= end and fits(index, begin) else []
            if not inside and number == len(levels) - 1 and fits(index, begin):
                inside = [begin]
            if inside:
                starts[index] = inside[0]
                level[1] = max(end, inside[0] + length)
                break
        else:
            begin = levels[-1][1] if levels else 0
            levels.append([begin, begin + length])
            starts[index] = begin
    return [starts[index] for index in range(len(requests))]


def shortest_makespan(requests: Requests, nodes: int) -> int:
    """Every order, each request at the earliest time with room: one of them is a best schedule."""
    best = sum(length for _, length in requests)
    for order in permutations(range(len(requests))):
        starts: dict[int, int] = {}
        for index in order:
            wide, length = requests[index]
            start = 0
            while any(
                used(requests, starts, time) + wide > nodes for time in range(start, start + length)
            ):
                start += 1
            starts[index] = start
        best = min(best, max(starts[index] + requests[index][1] for index in order))
    return best


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@settings(max_examples=effort.examples(60), deadline=None)
@given(data=st.data())
def test_every_rule_places_as_its_slow_twin_does(rule: PackingRule, data: st.DataObject) -> None:
    nodes = data.draw(st.integers(1, 8))
    block = data.draw(requests(nodes, 10))
    assert [each.start_s for each in pack(rule, block, nodes)] == slow_pack(rule.name, block, nodes)
    effort.steps[f"packings {rule.name}"] += 1


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@settings(max_examples=effort.examples(60), deadline=None)
@given(data=st.data())
def test_no_packing_takes_more_nodes_than_there_are_nor_crosses_a_scheduling_point(
    rule: PackingRule, data: st.DataObject
) -> None:
    nodes = data.draw(st.integers(1, 8))
    block = data.draw(requests(nodes, 12))
    placements = pack(rule, block, nodes)
    starts = {index: placement.start_s for index, placement in enumerate(placements)}
    for time in range(makespan_s(block, placements)):
        assert used(block, starts, time) <= nodes
    points = {}
    for placement in placements:
        points[placement.level] = min(
            points.get(placement.level, placement.start_s), placement.start_s
        )
    for (_, length), placement in zip(block, placements, strict=True):
        above = points.get(placement.level + 1)
        assert above is None or placement.start_s + length <= above


@settings(max_examples=effort.examples(40), deadline=None)
@given(st.integers(2, 6), st.data())
def test_ffdh_is_at_most_1_7_times_the_best_and_one_request_higher(
    nodes: int, data: st.DataObject
) -> None:
    block = data.draw(requests(nodes, 5))
    longest = max(length for _, length in block)
    best = shortest_makespan(block, nodes)
    height = makespan_s(block, pack(RULES["ffdh"], block, nodes))
    assert best <= height <= 1.7 * best + longest


@settings(max_examples=effort.examples(60), deadline=None)
@given(st.integers(1, 8), st.data())
def test_a_block_at_once_leaves_ffih_star_no_gaps_to_fill_but_equal_lengths(
    nodes: int, data: st.DataObject
) -> None:
    block = data.draw(requests(nodes, 10))
    assert pack(RULES["ffih*"], block, nodes) == pack(RULES["ffih"], block, nodes)


@pytest.mark.parametrize("bad", [(0, 5), (9, 5), (3, 0)])
def test_a_request_that_cannot_be_packed_is_refused_by_its_number(bad: tuple[int, int]) -> None:
    with pytest.raises(InvalidInput, match="request 2"):
        pack(RULES["ffdh"], [(1, 1), bad], 8)
