"""Partitions of a machine, schedules of them, and what a mapper answers to a schedule."""

from __future__ import annotations

import msgspec


class Partition(msgspec.Struct, frozen=True):
    """A set of nodes given to one job.

    `nodes` are the numbers of its nodes, ascending. It may hold more than were requested: whole atomic
    units, whole subcubes. `shape` is its extent in each dimension (empty if the topology has none),
    `origin` its lowest corner.
    """

    nodes: tuple[int, ...]
    shape: tuple[int, ...] = ()
    origin: tuple[int, ...] = ()


class Planned(msgspec.Struct, frozen=True):
    """A partition of `nodes` nodes that a schedule wants during ``[start_s, end_s)``.

    `shape` is the requested extent, empty for any. `partition` is set if the nodes are already taken, by
    a running job or by an advance reservation of named nodes.
    """

    job: int
    nodes: int
    start_s: int
    end_s: int
    shape: tuple[int, ...] = ()
    partition: Partition | None = None


class PlacementConflict(msgspec.Struct, frozen=True):
    """A planned job that cannot be configured at its start, next to those before it in the schedule.

    `suggested_s` is the earliest start, at or after the planned one, at which it could be configured if
    all others of the schedule stay where they are. None: never, with the nodes that are in service. A
    `partition` that overlaps another one is a conflict, too.
    """

    job: int
    suggested_s: int | None


class ScheduleVerdict(msgspec.Struct, frozen=True):
    """The mapper's answer to a schedule: the place of each job, and the jobs that do not fit as planned."""

    partitions: dict[int, Partition]
    conflicts: tuple[PlacementConflict, ...]
