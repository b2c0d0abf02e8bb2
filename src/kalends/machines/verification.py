"""The mapper's side of the verification protocol (Gehring and Ramme 1996, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kalends.core.errors import InvalidInput
from kalends.machines.partitions import Partition, PlacementConflict, Planned, ScheduleVerdict
from kalends.machines.topology import Location, Topology


class _Occupied(NamedTuple):
    """The units of a job of the schedule, and their time."""

    start_s: int
    end_s: int
    units: int


def verify(
    topology: Topology, taken: int, out: int, schedule: Sequence[Planned]
) -> ScheduleVerdict:
    """Verify a schedule, see `Machine.verify`; `taken` and `out` are the units not available now.

    Raises `InvalidInput` if two entries of the schedule have the same number.
    """
    in_order = sorted(schedule, key=lambda planned: (planned.partition is None, planned.start_s))
    fixed = {
        planned.job: topology.units_of(planned.partition)
        for planned in schedule
        if planned.partition is not None
    }
    _refuse_doubles(schedule)
    # Taken units without an entry have no known end.
    for units in fixed.values():
        taken &= ~units
    board = _Board(taken, taken | out)
    partitions: dict[int, Partition] = {}
    refused: list[Planned] = []
    for planned in in_order:
        if planned.partition is not None:
            site: Location | None = Location(fixed[planned.job])
            if fixed[planned.job] & board.during(planned.start_s, planned.end_s, fixed=True):
                site = None
        else:
            busy = board.during(planned.start_s, planned.end_s)
            site = topology.best(busy, planned.nodes, planned.shape)
        if site is None:
            refused.append(planned)
        else:
            board.standing.append(_Occupied(planned.start_s, planned.end_s, site.units))
            partitions[planned.job] = planned.partition or topology.partition(site)
    return ScheduleVerdict(
        partitions,
        tuple(
            PlacementConflict(each.job, _suggested(topology, board, each, fixed.get(each.job)))
            for each in sorted(refused, key=lambda planned: planned.start_s)
        ),
    )


class _Board:
    """The busy units over time."""

    def __init__(self, unaccounted: int, always: int) -> None:
        self.unaccounted = unaccounted
        """Units taken by no job of the schedule, and never given back."""
        self.always = always
        """These, and units out of service. A job that runs on such a unit stays there."""
        self.standing: list[_Occupied] = []

    def during(self, start_s: int, end_s: int, *, fixed: bool = False) -> int:
        """Return the units that are busy at some time in ``[start_s, end_s)``."""
        busy = self.unaccounted if fixed else self.always
        for begin_s, finish_s, units in self.standing:
            if begin_s < end_s and start_s < finish_s:
                busy |= units
        return busy


def _suggested(
    topology: Topology, board: _Board, planned: Planned, units: int | None
) -> int | None:
    """Return the earliest start for a conflict.

    Fewer units are busy only after an end, so only then can it fit.
    """
    length_s = planned.end_s - planned.start_s
    later = {each.end_s for each in board.standing if each.end_s > planned.start_s}
    for start_s in sorted({planned.start_s, *later}):
        busy = board.during(start_s, start_s + length_s, fixed=units is not None)
        if units is not None:
            if not units & busy:
                return start_s
        elif topology.best(busy, planned.nodes, planned.shape) is not None:
            return start_s
    return None


def _refuse_doubles(schedule: Sequence[Planned]) -> None:
    seen: set[int] = set()
    for planned in schedule:
        if planned.job in seen:
            raise InvalidInput(
                f"job {planned.job} is in the schedule twice",
                where="schedule",
                remedy="give every entry its own number",
            )
        seen.add(planned.job)
