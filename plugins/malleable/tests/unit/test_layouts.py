"""What each rank sends and gets: the same for both sides of every message, and all of it where it belongs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kalends_malleable import Blocks, Cyclic
from kalends_malleable.distributions import Distribution
from kalends_malleable.mpi.layouts import (
    Layout,
    Pieces,
    edges_received,
    edges_sent,
    received,
    sent,
)
from kalends_malleable.rank import Values

distributions = st.builds(Blocks) | st.builds(Cyclic, st.integers(1, 5))
sizes = st.integers(1, 7)


def parts_of(layout: Layout) -> list[Values]:
    """What each rank has of an array that holds its own indices."""
    return [
        np.array([each for start, end in layout.of(rank).ranges for each in range(start, end)])
        for rank in range(layout.ranks)
    ]


def delivered(
    parts: list[Values], outgoing: list[Pieces], rooms: list[Values], incoming: list[Pieces]
) -> None:
    """Carry all messages out: one from each rank to each other at most, as long as it is awaited."""
    messages = {
        (source, target): np.concatenate([parts[source][first:last] for first, last in places])
        for source, pieces in enumerate(outgoing)
        for target, places in pieces.items()
    }
    for target, pieces in enumerate(incoming):
        for source, places in pieces.items():
            message = messages.pop((source, target))
            where = [place for first, last in places for place in range(first, last)]
            rooms[target][where] = message
    assert not messages


@given(st.integers(1, 40), distributions, sizes, distributions, sizes)
def test_every_index_arrives_at_its_place(
    length: int, before: Distribution, p: int, after: Distribution, q: int
) -> None:
    old, new = Layout(length, before, p), Layout(length, after, q)
    rooms = [np.full(new.of(rank).indices, -1) for rank in range(q)]
    delivered(
        parts_of(old),
        [sent(old, new, rank) for rank in range(p)],
        rooms,
        [received(old, new, rank) for rank in range(q)],
    )
    assert all((room == part).all() for room, part in zip(rooms, parts_of(new), strict=True))


@given(st.integers(1, 40), sizes, st.integers(0, 50))
def test_edges_are_what_lies_before_and_after(length: int, ranks: int, width: int) -> None:
    layout = Layout(length, Blocks(), min(ranks, length))
    expected = [
        [*range(max(start - width, 0), start), *range(end, min(end + width, length))]
        for rank in range(layout.ranks)
        for start, end in layout.of(rank).ranges
    ]
    rooms = [np.full(len(each), -1) for each in expected]
    everyone = range(layout.ranks)
    delivered(
        parts_of(layout),
        [edges_sent(layout, rank, width) for rank in everyone],
        rooms,
        [edges_received(layout, rank, width) for rank in everyone],
    )
    assert [list(room) for room in rooms] == expected
