"""Busy units of a machine as a step function of time: the plan of backfilling on a topology."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from kalends.machines.machine import Machine, Partition
from kalends.scheduling.job import Job
from kalends.scheduling.profile import NEVER

Booked = tuple[int, Partition]
"""A start, and the nodes from then on."""


class MappedPlan:
    """A `Profile` of the busy units themselves, instead of a number of free nodes.

    Step i begins at `times[i]`; `busy[i]` are the units, as bits, that are taken until
    `times[i + 1]`; the last step never ends. Units that were out of service when the plan was made
    are not available at any time, and are in no step.
    """

    __slots__ = ("_machine", "_out", "_units", "busy", "times")

    def __init__(
        self, start: int, machine: Machine, taken: Iterable[tuple[int, int, Partition]]
    ) -> None:
        """Start with the machine less all ``(start, end, partition)`` of `taken`."""
        self._machine = machine
        self._out = machine.units_out
        self._units = machine.nodes // machine.unit_nodes
        self.times = [start]
        self.busy = [0]
        for begin, end, partition in taken:
            # A job that is late may have run on into a reservation of the same units.
            self._book(partition, max(begin, start), end)

    def earliest(
        self, job: Job, not_before: int, before: int = NEVER, booked: Booked | None = None
    ) -> Booked | None:
        """Return the first start in ``[not_before, before)`` at which the job has a place, and its partition.

        The partition is free for all of the requested time, and the mapper's first choice among those. Nodes
        that the job has `booked` itself, from `before` or later on, count as free. None: there is no such
        start; without `before`, not even on the nodes that are free in the end.
        """
        machine, times = self._machine, self.times
        busy = self.busy if booked is None else self._busy_beside(booked, before + job.requested_s)
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

    def fits(self, partition: Partition, start: int, end: int) -> bool:
        """Return whether all of a partition is free during ``[start, end)``."""
        units = self._machine.units_of(partition)
        first = max(bisect_right(self.times, start) - 1, 0)
        last = bisect_left(self.times, end)
        return all(not busy & units for busy in self.busy[first:last])

    def take(self, partition: Partition, start: int, end: int) -> None:
        """Book a partition during ``[start, end)``, when all of it is free."""
        assert self.fits(partition, start, end), "units are booked once"
        self._book(partition, start, end)

    def _book(self, partition: Partition, start: int, end: int) -> None:
        units = self._machine.units_of(partition)
        first, last = self._borders(start, end)
        for index in range(first, last):
            self.busy[index] |= units
        self._merge(first, last)

    def give_back(self, partition: Partition, start: int, end: int) -> None:
        """Undo `take`, or the rest of it."""
        units = self._machine.units_of(partition)
        first, last = self._borders(max(start, self.times[0]), end)
        for index in range(first, last):
            self.busy[index] &= ~units
        self._merge(first, last)

    def forget_before(self, now: int) -> None:
        """Drop steps before `now`, which are no longer needed."""
        past = bisect_right(self.times, now) - 1
        if past > 0:
            del self.times[:past], self.busy[:past]
        self.times[0] = max(self.times[0], now)

    def _busy_beside(self, booked: Booked, until: int) -> list[int]:
        """Return the busy units of each step without this booking; right up to `until` or its end."""
        start, partition = booked
        if until <= start:
            return self.busy
        busy = self.busy[:]
        units = self._machine.units_of(partition)
        for index in range(bisect_left(self.times, start), bisect_left(self.times, until)):
            busy[index] &= ~units
        return busy

    def _borders(self, start: int, end: int) -> tuple[int, int]:
        """Return the indices of the steps that begin at `start` and `end`; they are made if necessary.

        Equal if it is empty.
        """
        if end <= start:
            return 0, 0
        return self._border(start), self._border(end)

    def _border(self, time: int) -> int:
        times = self.times
        index = bisect_left(times, time)
        if index == len(times) or times[index] != time:
            assert index > 0, "a plan knows nothing of the time before it"
            times.insert(index, time)
            self.busy.insert(index, self.busy[index - 1])
        return index

    def _merge(self, first: int, last: int) -> None:
        """Merge equal neighbours among the steps."""
        for index in (last, first):
            if index and self.busy[index] == self.busy[index - 1]:
                del self.times[index], self.busy[index]
