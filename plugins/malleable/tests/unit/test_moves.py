"""Redistributions: every index moves exactly once, from who has it to who shall have it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.core.errors import InvalidInput
from kalends_malleable import Blocks, Cyclic, Transfer, moves
from kalends_malleable.distributions import Distribution, owners

distributions = st.builds(Blocks) | st.builds(Cyclic, st.integers(1, 7))
lengths, sizes = st.integers(0, 60), st.integers(1, 9)


def owner_of(index: int, length: int, distribution: Distribution, ranks: int) -> int:
    """The slow twin: who has one index, by what the words mean."""
    if isinstance(distribution, Cyclic):
        return index // distribution.width % ranks
    return next(rank for rank in range(ranks) if index < length * (rank + 1) // ranks)


@given(lengths, distributions, sizes, distributions, sizes)
def test_every_index_goes_once_from_its_old_owner_to_its_new(
    length: int, old: Distribution, p: int, new: Distribution, q: int
) -> None:
    gone = [
        (index, source, target)
        for source, target, start, end in moves(length, old, p, new, q)
        for index in range(start, end)
    ]
    assert gone == [
        (index, owner_of(index, length, old, p), owner_of(index, length, new, q))
        for index in range(length)
    ]


@given(lengths, distributions, sizes, distributions, sizes)
def test_moves_back_undo_moves(
    length: int, old: Distribution, p: int, new: Distribution, q: int
) -> None:
    back = [(each.target, each.source, *each[2:]) for each in moves(length, old, p, new, q)]
    assert moves(length, new, q, old, p) == back


@given(lengths, distributions, sizes)
def test_what_changes_nothing_moves_nothing(
    length: int, distribution: Distribution, ranks: int
) -> None:
    assert all(
        source == target
        for source, target, _, _ in moves(length, distribution, ranks, distribution, ranks)
    )


@given(lengths, distributions, sizes)
def test_ranges_of_all_ranks_hold_every_index_once(
    length: int, distribution: Distribution, ranks: int
) -> None:
    held = {
        index: rank
        for rank in range(ranks)
        for start, end in distribution.ranges(length, ranks, rank)
        for index in range(start, end)
    }
    assert held == {index: owner_of(index, length, distribution, ranks) for index in range(length)}


@given(st.integers(1, 60), distributions, sizes)
def test_up_to_the_most_ranks_each_gets_an_index(
    length: int, distribution: Distribution, ranks: int
) -> None:
    everyone = all(distribution.ranges(length, ranks, rank) for rank in range(ranks))
    assert everyone == (ranks <= distribution.ranks_max(length))


@given(lengths, distributions, sizes, st.integers(0, 60), st.integers(0, 60))
def test_the_owners_of_a_range_hold_all_of_it_in_order(
    length: int, distribution: Distribution, ranks: int, start: int, end: int
) -> None:
    found = [
        (index, rank)
        for rank, (first, last) in owners(length, distribution, ranks, (start, end))
        for index in range(first, last)
    ]
    assert found == [
        (index, owner_of(index, length, distribution, ranks))
        for index in range(start, min(end, length))
    ]


@pytest.mark.parametrize(
    ("old", "p", "new", "q", "expected"),
    [
        (Blocks(), 1, Blocks(), 2, [(0, 0, 0, 5), (0, 1, 5, 10)]),
        (Blocks(), 2, Blocks(), 1, [(0, 0, 0, 5), (1, 0, 5, 10)]),
        (Blocks(), 2, Cyclic(4), 2, [(0, 0, 0, 4), (0, 1, 4, 5), (1, 1, 5, 8), (1, 0, 8, 10)]),
    ],
)
def test_moves_by_hand(
    old: Distribution, p: int, new: Distribution, q: int, expected: list[tuple[int, ...]]
) -> None:
    assert moves(10, old, p, new, q) == [Transfer(*each) for each in expected]


@pytest.mark.parametrize("width", [0, -1, 1.5])
def test_a_width_of_no_indices_is_refused(width: int) -> None:
    with pytest.raises(InvalidInput, match="1 index or more"):
        Cyclic(width)
