"""Free nodes of each part, or busy units, as step functions of time: plans of backfilling with places."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from kalends.machines.machine import Machine
from kalends.machines.partitions import Partition
from kalends.scheduling.job import Job, stretched
from kalends.scheduling.placement import Placed, Placer
from kalends.scheduling.profile import NEVER

Value = TypeVar("Value")


class StepPlan(Generic[Value]):
    """Values over time. Step i begins at `times[i]`, and has `values[i]` until `times[i + 1]`.

    The last step never ends. Equal neighbours are one step.
    """

    __slots__ = ("times", "values")

    def __init__(self, start: int, value: Value) -> None:
        self.times = [start]
        self.values = [value]

    def during(self, start: int, end: int) -> list[Value]:
        """Return the values of ``[start, end)``, in order."""
        first = max(bisect_right(self.times, start) - 1, 0)
        return self.values[first : bisect_left(self.times, end)]

    def change(self, start: int, end: int, change: Callable[[Value], Value]) -> None:
        """Change the values of ``[start, end)``, as far as it is not in the past."""
        start = max(start, self.times[0])
        if end <= start:
            return
        first, last = self._border(start), self._border(end)
        self.values[first:last] = map(change, self.values[first:last])
        for index in (last, first):
            if index and self.values[index] == self.values[index - 1]:
                del self.times[index], self.values[index]

    def forget_before(self, now: int) -> None:
        """Drop steps before `now`, which are no longer needed."""
        past = bisect_right(self.times, now) - 1
        if past > 0:
            del self.times[:past], self.values[:past]
        self.times[0] = max(self.times[0], now)

    def _border(self, time: int) -> int:
        """Return the index of the step that begins at `time`; it is made if necessary."""
        index = bisect_left(self.times, time)
        if index == len(self.times) or self.times[index] != time:
            self.times.insert(index, time)
            self.values.insert(index, self.values[index - 1])
        return index


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


class GridPlan(StepPlan[list[int]]):
    """A `Profile` with one number of free nodes for each part of the grid."""

    __slots__ = ("_placer",)

    def __init__(
        self,
        start: int,
        placer: Placer,
        nodes: Sequence[int],
        busy: Iterable[tuple[int, int, Placed]],
    ) -> None:
        """Start with `nodes` of each part, less all ``(start, end, placed)`` of `busy`."""
        super().__init__(start, list(nodes))
        self._placer = placer
        for begin, end, placed in busy:
            self.take(placed, begin, end)

    def free_during(self, start: int, end: int) -> list[int]:
        """Return the fewest free nodes of each part at any time of ``[start, end)``, or at `start`."""
        return [
            min(counts) for counts in zip(*self.during(start, max(end, start + 1)), strict=True)
        ]

    def earliest(
        self,
        job: Job,
        not_before: int,
        before: int = NEVER,
        booked: tuple[int, Placed] | None = None,
    ) -> tuple[int, Placed] | None:
        """Return the first start in ``[not_before, before)`` at which the job fits, and its place then.

        What the job has `booked` itself counts as free. None: there is no such start; without `before`, not
        even on the free nodes of the last step, which never ends.
        """
        if booked is not None:
            span = booked[0], self.end_of(job, *booked)
            self.give_back(booked[1], *span)
        found = None
        for start in (not_before, *self.times[bisect_right(self.times, not_before) :]):
            if start >= before:
                break
            placed = self._placer.place_during(job, start, self.free_during)
            if placed is not None:
                found = start, placed
                break
        if booked is not None:
            self.take(booked[1], *span)
        return found

    def end_of(self, job: Job, start: int, placed: Placed) -> int:
        """Return the end of the job's requested time, if it starts at this time and place."""
        return start + stretched(job.requested_s, self._placer.stretch(placed))

    def fits(self, placed: Placed, start: int, end: int) -> bool:
        """Return whether these nodes are free during all of ``[start, end)``."""
        return all(map(int.__ge__, self.free_during(start, end), placed))

    def take(self, placed: Placed, start: int, end: int) -> None:
        """Book nodes of each part during ``[start, end)``."""
        self.change(start, end, lambda free: list(map(int.__sub__, free, placed)))

    def give_back(self, placed: Placed, start: int, end: int) -> None:
        """Undo `take`, or the rest of it."""
        self.change(start, end, lambda free: list(map(int.__add__, free, placed)))
