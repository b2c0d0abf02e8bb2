"""Arrays in parts, one in each rank, and messages that move pieces of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

from kalends_malleable.distributions import Distribution, Range
from kalends_malleable.mpi.layouts import Layout, Pieces, received, sent
from kalends_malleable.program import Array
from kalends_malleable.rank import Piece, Values


class LocalArray:
    """The part of one array that a rank has: its ranges one after the other, along the first axis."""

    def __init__(self, array: Array, distribution: Distribution, ranks: int, rank: int) -> None:
        self.array = array
        self.axis = distribution.axis
        length = array.shape[self.axis]
        self.layout = Layout(length, distribution, ranks)
        self.rank = rank
        rows = self.layout.of(rank).indices
        self.values: Values = np.zeros((rows, *self._across()), array.type)

    def pieces(self) -> list[Piece]:
        """Return the ranges, and views of their values with the axes that the user declared."""
        return [
            Piece(start, end, self.shown(self.values[first:last]))
            for (start, end), (first, last) in self.layout.of(self.rank).places()
        ]

    def shown(self, values: Values) -> Values:
        """Return a view of `values` with the distributed axis at the user's position."""
        return np.moveaxis(values, 0, self.axis)

    def empty(self, indices: int) -> Values:
        """Return an empty array for this number of indices of the distributed axis, which comes first."""
        return np.zeros((indices, *self._across()), self.array.type)

    def _across(self) -> tuple[int, ...]:
        shape = self.array.shape
        return shape[: self.axis] + shape[self.axis + 1 :]


def send_to(comm: MPI.Comm, mine: LocalArray, new: Layout) -> list[tuple[MPI.Request, Values]]:
    """Begin to send this rank's values to the ranks of the `new` layout."""
    return _sent(comm, mine.values, sent(mine.layout, new, mine.rank))


def receive_from(comm: MPI.Comm, mine: LocalArray, old: Layout) -> None:
    """Receive this rank's values from the ranks of the `old` layout."""
    _received(comm, mine.values, received(old, mine.layout, mine.rank))


def exchange(
    comm: MPI.Comm, values: Values, outgoing: Pieces, room: Values, incoming: Pieces
) -> None:
    """Send pieces of `values`, receive others into `room`; collective."""
    requests = _sent(comm, values, outgoing)
    _received(comm, room, incoming)
    finish(requests)


def finish(requests: list[tuple[MPI.Request, Values]]) -> None:
    """Wait until all is sent."""
    MPI.Request.Waitall([request for request, _ in requests])


def moved_within(comm: MPI.Intracomm, old: LocalArray, new: LocalArray) -> None:
    """Fill `new` from `old` in all ranks of one set; their axes may differ."""
    if old.axis == new.axis:
        outgoing = sent(old.layout, new.layout, old.rank)
        incoming = received(old.layout, new.layout, new.rank)
        exchange(comm, old.values, outgoing, new.values, incoming)
        return
    whole = gathered(comm, old)
    for piece in new.pieces():
        where: list[Any] = [slice(None)] * whole.ndim
        where[new.axis] = slice(piece.start, piece.end)
        piece.values[...] = whole[tuple(where)]


def gathered(comm: MPI.Intracomm, mine: LocalArray) -> Values:
    """Return the whole array in all ranks; collective."""
    layout = mine.layout
    counts = [layout.of(rank).indices for rank in range(layout.ranks)]
    together = mine.empty(layout.length)
    row = together[:1].nbytes
    comm.Allgatherv(
        [_bytes(mine.values), MPI.BYTE],
        [_bytes(together), [row * count for count in counts], None, MPI.BYTE],
    )
    return mine.shown(_in_order(together, layout, counts))


def gathered_at_root(comm: MPI.Intracomm, mine: LocalArray) -> Values | None:
    """Return the whole array in rank 0, and None in the others; collective."""
    whole = Layout(mine.layout.length, mine.layout.distribution, 1)
    requests = _sent(comm, mine.values, sent(mine.layout, whole, mine.rank))
    room = None
    if mine.rank == 0:
        room = mine.empty(whole.length)
        _received(comm, room, received(mine.layout, whole, 0))
    finish(requests)
    return None if room is None else mine.shown(room)


def scatter_from_root(comm: MPI.Intracomm, whole: Values | None, mine: LocalArray) -> None:
    """Send every rank its part of the whole array in rank 0; collective."""
    one = Layout(mine.layout.length, mine.layout.distribution, 1)
    requests = []
    if whole is not None:
        values = np.ascontiguousarray(np.moveaxis(whole, mine.axis, 0))
        requests = _sent(comm, values, sent(one, mine.layout, 0))
    receive_from(comm, mine, one)
    finish(requests)


def _in_order(together: Values, layout: Layout, counts: list[int]) -> Values:
    """Put the parts of all ranks, one after the other, into the order of the indices."""
    if all(len(layout.of(rank).ranges) <= 1 for rank in range(layout.ranks)):
        return together
    ordered, first = np.empty_like(together), 0
    for rank, count in enumerate(counts):
        part = together[first : first + count]
        for (start, end), (begin, last) in layout.of(rank).places():
            ordered[start:end] = part[begin:last]
        first += count
    return ordered


def _sent(comm: MPI.Comm, values: Values, outgoing: Pieces) -> list[tuple[MPI.Request, Values]]:
    """Begin to send; each request comes with the memory that must stay until it is done."""
    requests = []
    for other, places in outgoing.items():
        parts = [values[first:last] for first, last in places]
        message = parts[0] if len(parts) == 1 else np.concatenate(parts)
        requests.append((comm.Isend([_bytes(message), MPI.BYTE], other), message))
    return requests


def _received(comm: MPI.Comm, room: Values, incoming: Pieces) -> None:
    requests, scattered = [], []
    for other, places in incoming.items():
        message = _room(room, places)
        requests.append(comm.Irecv([_bytes(message), MPI.BYTE], other))
        if len(places) > 1:
            scattered.append((message, places))
    MPI.Request.Waitall(requests)
    for message, places in scattered:
        begin = 0
        for first, last in places:
            room[first:last] = message[begin : begin + last - first]
            begin += last - first


def _room(room: Values, places: list[Range]) -> Values:
    if len(places) == 1:
        return room[slice(*places[0])]
    return np.empty((sum(last - first for first, last in places), *room.shape[1:]), room.dtype)


def _bytes(values: Values) -> Values:
    return values.reshape(-1).view(np.uint8)
