"""Advance reservations: rectangles of nodes x time that no queue may touch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Self

import msgspec

from kalends.core.errors import Conflict, InvalidInput
from kalends.core.excerpts import excerpt
from kalends.scheduling.job import Job


class Reservation(msgspec.Struct, frozen=True, order=True):
    """An advance reservation: `nodes` nodes kept free of jobs during ``[start_s, end_s)``."""

    start_s: int
    end_s: int
    nodes: int
    name: str = ""
    part: int = -1
    """The part of a grid, numbered from 0 in the clusters' order; -1 elsewhere."""
    shape: tuple[int, ...] = ()
    """Its extent on a machine with a topology; () for any."""

    def __post_init__(self) -> None:
        if self.end_s <= self.start_s or self.nodes < 1:
            raise InvalidInput(
                f"{self.nodes} nodes from {self.start_s} to {self.end_s}",
                where=f"reservation {self.name}".strip(),
                remedy="give 1 node or more, and an end after the start",
            )


class Reservations:
    """All reservations of one cluster, by start. Raises `InvalidInput` if they need more than `nodes`."""

    def __init__(self, nodes: int, reservations: Iterable[Reservation] = ()) -> None:
        self._sorted = sorted(reservations)
        self._starts = [each.start_s for each in self._sorted]
        self._ends = sorted(each.end_s for each in self._sorted)
        self._longest_s = max((each.end_s - each.start_s for each in self._sorted), default=0)
        for each in self._sorted:
            wanted = self.nodes_at(each.start_s)
            if wanted > nodes:
                raise InvalidInput(
                    f"{wanted} nodes are reserved at {each.start_s}, of {nodes}",
                    where=f"reservation {each.name}".strip(),
                    remedy="make it smaller or move it",
                )

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # They never change: a frozen scheduler shares them.
        return self

    def __bool__(self) -> bool:
        return bool(self._sorted)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self._sorted)

    def nodes_at(self, time_s: int) -> int:
        """Return the number of nodes reserved at an instant."""
        first = bisect_right(self._starts, time_s - self._longest_s - 1)
        return sum(
            each.nodes
            for each in self._sorted[first : bisect_right(self._starts, time_s)]
            if each.end_s > time_s
        )

    def next_change(self, now: int) -> int | None:
        """Return when the next reservation ends after `now`, so that jobs may start; None: never."""
        later = bisect_right(self._ends, now)
        return self._ends[later] if later < len(self._ends) else None


class Guests(dict[int, tuple[Job, str]]):
    """The running jobs that have nodes of a reservation, and its name, by order. They keep them to its end.

    A reservation keeps free its nodes less those of its guests.
    """

    def admit(self, name: str, job: Job) -> None:
        """Give `job` nodes of the reservation `name`, and of no other."""
        self[job.order] = job, name

    def turn_out(self, name: str) -> list[Job]:
        """Forget all guests of the reservation `name`, and return them."""
        gone = self.of(name)
        for job in gone:
            del self[job.order]
        return gone

    def of(self, name: str) -> list[Job]:
        """Return the guests of the reservation `name`."""
        return [job for job, at in self.values() if at == name]

    def left_of(self, made: Iterable[Reservation]) -> list[Reservation]:
        """Return the reservations `made` with the nodes that they still keep free, without full ones."""
        if not self:
            return list(made)
        left = []
        for each in made:
            nodes = each.nodes - sum(job.granted for job in self.of(each.name))
            if nodes > 0:
                left.append(msgspec.structs.replace(each, nodes=nodes))
        return left


def check_arrival(wanted: Reservation, now: int) -> None:
    """Raise `InvalidInput` unless a new reservation has a name and time left, and names no part."""
    if not wanted.name:
        raise InvalidInput(
            "a reservation without a name", where="reservation", remedy="give it one of its own"
        )
    if wanted.end_s <= now:
        raise InvalidInput(
            f"it ends at {wanted.end_s}, and it is {now} now",
            where=f"reservation {excerpt(wanted.name)}",
            remedy="reserve a time to come",
        )
    if wanted.part >= 0:
        raise InvalidInput(
            f"no such part {wanted.part}",
            where=f"reservation {excerpt(wanted.name)}",
            remedy="leave out the part",
        )


def no_room(wanted: Reservation, free_s: int | None = None) -> Conflict:
    """Return the error that there is no room for a reservation; perhaps there is from `free_s` on."""
    return Conflict(
        f"{wanted.nodes} nodes are not free from {wanted.start_s} to {wanted.end_s}",
        where=f"reservation {excerpt(wanted.name)}",
        remedy="make it smaller, or begin "
        + ("at another time" if free_s is None else f"at {free_s}"),
    )
