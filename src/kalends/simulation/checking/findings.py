"""Findings: the faults of a schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from kalends.simulation.checking.ticks import Ticks

Progress = Callable[[int, int], None]
"""Is told of how many jobs the starts have been looked at, and of how many they will be."""


def untold(jobs: int, expected: int) -> None:
    """Report no progress."""


MOST_NODES: Final = 65_536
"""More nodes than any machine with a topology has."""


_NODES: Final = frozenset({"capacity", "reservation", "nodes", "shared", "outside"})
"""Kinds of findings that count nodes."""


class LoggedJob(msgspec.Struct, frozen=True):
    """A job as the log has it; times here and below are in the ticks of the check, seconds nearly always."""

    id: int
    submit_s: int
    nodes: int
    requested_s: int
    run_s: int
    logged_nodes: int = 0
    """The nodes in the log, where `nodes` are those of a partition for it."""
    logged_s: int = 0
    """The requested time in the log, whatever policies took for it; 0 for none."""
    uncut_s: int = 0
    """The run time in the log, beyond the requested time too."""


class ResultRow(msgspec.Struct, frozen=True):
    """A job as the result has it; None for unknown values."""

    id: int
    line: int
    start_s: int
    end_s: int | None
    submit_s: int | None
    nodes: int | None
    places: tuple[range, ...] = ()
    """The numbers of its nodes; empty where the result names none."""
    resized: bool = False
    """Whether it changed its nodes while it ran; the result says only those that it had in the end."""
    asked_nodes: int | None = None
    """How many nodes it asks for, by the result."""
    asked_s: int | None = None
    """The time that it asks for, by the result."""


class Run(msgspec.Struct, frozen=True):
    """One job as it ran, with its place in the order of submission."""

    order: int
    request: LoggedJob
    start_s: int
    end_s: int
    places: tuple[range, ...] = ()
    resized: bool = False

    @property
    def until_s(self) -> int:
        """End of its requested time."""
        return self.start_s + self.request.requested_s

    @property
    def mask(self) -> int:
        """The numbers of its nodes, as bits; without those that no machine has."""
        bits = 0
        for each in self.places:
            if each.start < MOST_NODES:
                bits |= (1 << min(each.stop, MOST_NODES)) - (1 << each.start)
        return bits


class Blocked(msgspec.Struct, frozen=True):
    """An advance reservation: nodes taken during ``[start_s, end_s)`` by no job."""

    start_s: int
    end_s: int
    nodes: int


class Finding(msgspec.Struct, frozen=True):
    """A broken rule: by which job, when, and by how much."""

    kind: str
    """missing, invented, twice, submit, request, nodes, early, run-time, capacity, shared, outside, unnamed,
    partition, reservation, order, idle, delayed, held-back or promise: docs/check-schedule.md explains each.
    """
    job: int
    at_s: float
    by: float
    """Seconds, or nodes for capacity, reservation and nodes; 0 where there is nothing to measure."""
    detail: str

    def in_seconds(self, ticks: Ticks) -> Finding:
        """Return the finding with its times in seconds, if it has them in `ticks`."""
        by = self.by if self.kind in _NODES else ticks.seconds(int(self.by))
        return replace(self, at_s=ticks.seconds(int(self.at_s)), by=by)
