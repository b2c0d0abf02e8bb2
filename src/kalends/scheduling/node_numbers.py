"""Numbers for nodes that were only counted: always the lowest that are free."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from itertools import chain

from kalends.machines.partitions import Partition

Intervals = tuple[tuple[int, int], ...]
"""Numbers of nodes, ascending: ``(first, last)`` of each run without a gap, both included."""


class FreeNodes:
    """The free ones of `nodes` nodes, numbered from `first` on, as runs without a gap."""

    def __init__(self, nodes: int, first: int = 0) -> None:
        self._runs: list[tuple[int, int]] = [(first, first + nodes - 1)] if nodes > 0 else []

    def take(self, count: int) -> Intervals | None:
        """Return the `count` lowest numbers; None, and nothing is taken, if fewer are free."""
        taken: list[tuple[int, int]] = []
        if not count:
            return ()
        for first, last in self._runs:
            taken.append((first, min(last, first + count - 1)))
            count -= last - first + 1
            if count <= 0:
                del self._runs[: len(taken)]
                if count < 0:
                    self._runs.insert(0, (last + count + 1, last))
                return tuple(taken)
        return None

    def give_back(self, taken: Intervals) -> None:
        """Free numbers that `take` gave."""
        runs = self._runs
        for first, last in taken:
            at = bisect_left(runs, (first, last))
            if at < len(runs) and runs[at][0] == last + 1:
                last = runs.pop(at)[1]
            if at and runs[at - 1][1] == first - 1:
                at -= 1
                first = runs.pop(at)[0]
            runs.insert(at, (first, last))

    def remove(self, number: int) -> bool:
        """Take this number out; return whether it was free."""
        runs = self._runs
        at = bisect_right(runs, (number, 1 << 62)) - 1
        if at < 0 or runs[at][1] < number:
            return False
        first, last = runs[at]
        halves = ((first, number - 1), (number + 1, last))
        runs[at : at + 1] = [half for half in halves if half[0] <= half[1]]
        return True


class NodeNumbers:
    """The nodes of each job on a live cluster where any nodes will do: the lowest free ones.

    No job gets nodes out of service; a job that has them keeps them to its end.
    """

    def __init__(self, nodes: int) -> None:
        self._free = FreeNodes(nodes)
        self._out: frozenset[int] = frozenset()
        self._idle_out: set[int] = set()
        """Nodes out of service that no job has."""

    def take(self, count: int) -> Partition:
        """Give a job nodes. They must be free, as counted by the cluster."""
        return _partition(self._free.take(count) or ())

    def give_back(self, partition: Partition) -> None:
        """Free the nodes of a job, except those out of service."""
        self._free_again(partition.nodes)

    def resize(self, partition: Partition, nodes: int) -> Partition:
        """Change the nodes of a job: it gains the lowest free ones, or loses its highest."""
        kept = partition.nodes[:nodes]
        self._free_again(partition.nodes[nodes:])
        return Partition(tuple(sorted(kept + self.take(nodes - len(kept)).nodes)))

    def serve_all_but(self, out: frozenset[int]) -> None:
        """Take these nodes out of service, and all others back."""
        leaving, self._out = sorted(out - self._out), out
        self._idle_out.update(node for node in leaving if self._free.remove(node))
        returning = self._idle_out - out
        self._idle_out -= returning
        self._free_again(sorted(returning))

    def _free_again(self, nodes: Collection[int]) -> None:
        out = self._out.intersection(nodes)
        self._idle_out |= out
        self._free.give_back(intervals(node for node in nodes if node not in out))


def _partition(taken: Iterable[tuple[int, int]]) -> Partition:
    return Partition(tuple(chain.from_iterable(range(first, last + 1) for first, last in taken)))


def without(partition: Partition, kept: Partition) -> Partition:
    """Return the nodes of `partition` that are not among the `kept`."""
    return Partition(tuple(sorted(set(partition.nodes) - set(kept.nodes))))


def intervals(numbers: Iterable[int]) -> Intervals:
    """Return ascending `numbers` as runs without a gap."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return tuple(runs)
