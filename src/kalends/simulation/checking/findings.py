"""Findings: the faults of a schedule."""

from __future__ import annotations

from typing import Final

import msgspec

MOST_NODES: Final = 65_536
"""More nodes than any machine with a topology has."""


class LoggedJob(msgspec.Struct, frozen=True):
    """A job as the log has it."""

    id: int
    submit_s: int
    nodes: int
    requested_s: int
    run_s: int


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
        """When its requested time is over."""
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
    """missing, invented, twice, submit, nodes, early, run-time, capacity, shared, outside, unnamed,
    partition, reservation, order, idle, delayed, held-back or promise: docs/check-schedule.md explains each.
    """
    job: int
    at_s: int
    by: int
    """Seconds, or nodes for capacity, reservation and nodes; 0 where there is nothing to measure."""
    detail: str
