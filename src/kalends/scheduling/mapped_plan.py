"""Busy units of a machine as a step function of time: the plan of backfilling on a topology."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from kalends.machines.machine import Machine, Partition
from kalends.scheduling.job import Job
from kalends.scheduling.profile import NEVER
from kalends.scheduling.step_plan import StepPlan

Booked = tuple[int, Partition]
"""A start, and the nodes from then on."""


class MappedPlan(StepPlan[int]):
    """A `Profile` of the busy units themselves, as bits, instead of a number of free nodes.

    Units that were out of service when the plan was made are not available at any time, and are in no step.
    """

    __slots__ = ("_machine", "_out", "_units")

    def __init__(
        self, start: int, machine: Machine, taken: Iterable[tuple[int, int, Partition]]
    ) -> None:
        """Start with the machine less all ``(start, end, partition)`` of `taken`."""
        super().__init__(start, 0)
        self._machine = machine
        self._out = machine.units_out
        self._units = machine.nodes // machine.unit_nodes
        for begin, end, partition in taken:
            # A job that is late may have run on into a reservation of the same units.
            self._book(partition, begin, end)

    def earliest(
        self, job: Job, not_before: int, before: int = NEVER, booked: Booked | None = None
    ) -> Booked | None:
        """Return the first start in ``[not_before, before)`` at which the job has a place, and its partition.

        The partition is free for all of the requested time, and the mapper's first choice among those. Nodes
        that the job has `booked` itself, from `before` or later on, count as free. None: there is no such
        start; without `before`, not even on the nodes that are free in the end.
        """
        machine, times = self._machine, self.times
        busy = (
            self.values if booked is None else self._busy_beside(booked, before + job.requested_s)
        )
        most = self._units - machine.granted(job.nodes, job.shape) // machine.unit_nodes
        first = max(bisect_right(times, not_before) - 1, 0)
        start = not_before
        while start < before:
            end, at = start + job.requested_s, first
            taken = self._out | busy[first]
            while taken.bit_count() <= most:
                at += 1
                if at == len(times) or times[at] >= end:
                    partition = machine.find_beside(taken, job.nodes, job.shape)
                    if partition is not None:
                        return start, partition
                    at = first
                    break
                taken |= busy[at]
            # Whatever begins before the last step that is too much with `at` meets both of them.
            taken = self._out | busy[at]
            while at > first and taken.bit_count() <= most:
                at -= 1
                taken |= busy[at]
            # A start that was impossible a little earlier needs a unit that becomes free.
            first = at + 1
            while first < len(times) and not busy[first - 1] & ~busy[first]:
                first += 1
            if first == len(times):
                return None
            start = times[first]
        return None

    def end_of(self, job: Job, start: int, partition: Partition) -> int:
        """Return the end of the job's requested time, if it starts at this time and place."""
        return start + job.requested_s

    def fits(self, partition: Partition, start: int, end: int) -> bool:
        """Return whether all of a partition is free during ``[start, end)``."""
        units = self._machine.units_of(partition)
        return all(not busy & units for busy in self.during(start, end))

    def take(self, partition: Partition, start: int, end: int) -> None:
        """Book a partition during ``[start, end)``, when all of it is free."""
        assert self.fits(partition, start, end), "units are booked once"
        self._book(partition, start, end)

    def give_back(self, partition: Partition, start: int, end: int) -> None:
        """Undo `take`, or the rest of it."""
        free = ~self._machine.units_of(partition)
        self.change(start, end, lambda busy: busy & free)

    def _book(self, partition: Partition, start: int, end: int) -> None:
        units = self._machine.units_of(partition)
        self.change(start, end, lambda busy: busy | units)

    def _busy_beside(self, booked: Booked, until: int) -> list[int]:
        """Return the busy units of each step without this booking; right up to `until` or its end."""
        start, partition = booked
        if until <= start:
            return self.values
        busy = self.values[:]
        units = self._machine.units_of(partition)
        for index in range(bisect_left(self.times, start), bisect_left(self.times, until)):
            busy[index] &= ~units
        return busy
