"""A whole schedule in memory, for what needs all of it at once: job lists with node numbers, pictures."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import accumulate, chain

from kalends.core.errors import InvalidInput
from kalends.scheduling.node_numbers import FreeNodes, Intervals, intervals
from kalends.simulation.job import SimulatedJob
from kalends.simulation.malleable import MalleableJob


class Schedule:
    """Columns with one entry for each ended job, in order of ends: 8 bytes an entry.

    `add` is a watcher for `kalends.simulation.experiment.simulate`. `name` is what legends call it; `parts`
    are how many nodes each part of a grid has, so that its jobs get node numbers of their own parts.
    """

    def __init__(self, name: str = "", parts: Sequence[int] = ()) -> None:
        self.name = name
        self.parts = tuple(parts)
        self.ids = array("q")
        self.submits = array("q")
        self.starts = array("q")
        self.ends = array("q")
        self.widths = array("q")
        """Nodes of each job; of a resized job, the last ones."""
        self.requested = array("q")
        """Requested times, as the user gave them."""
        self._orders = array("q")
        self._named: dict[int, Intervals] = {}
        """Nodes of jobs that ran on named ones, by index."""
        self._pauses: dict[int, tuple[tuple[int, int], ...]] = {}
        """Times when preempted jobs did not run, by index."""
        self._sized: dict[int, list[tuple[int, int, int]]] = {}
        """Stretches ``(start_s, end_s, nodes)`` of jobs that can change their size, by index."""
        self._placed: dict[int, tuple[int, ...]] = {}
        """Nodes of jobs in each part, by index."""

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, job: SimulatedJob) -> None:
        if job.partition is not None:
            self._named[len(self.ids)] = intervals(job.partition.nodes)
        if job.pauses:
            self._pauses[len(self.ids)] = job.pauses
        nodes = job.nodes
        if isinstance(job, MalleableJob) and len(job.held) > 1:
            self._sized[len(self.ids)] = job.stretches()
            nodes = job.held[-1][1]
        if self.parts:
            self._placed[len(self.ids)] = job.placed
        self.ids.append(job.id)
        self.submits.append(job.submit_s)
        self.starts.append(job.start_s)
        self.ends.append(job.end_s)
        self.widths.append(nodes)
        self.requested.append(job.asked_s or job.requested_s)
        self._orders.append(job.order)

    def by_submission(self) -> list[int]:
        """Return the indices of all jobs, in order of submission."""
        return sorted(range(len(self)), key=self._orders.__getitem__)

    def sized(self, index: int) -> bool:
        """Return whether a job had several sizes."""
        return len({nodes for _, _, nodes in self._sized.get(index, ())}) > 1

    def stretches(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield ``(index, start, end, nodes)`` of every run, by index.

        Of a job that was preempted or changed its size there is one for each time in between.
        """
        for index, (start_s, end_s) in enumerate(zip(self.starts, self.ends, strict=True)):
            if index in self._sized:
                yield from ((index, *stretch) for stretch in self._sized[index])
                continue
            nodes = self.widths[index]
            for pause_s, again_s in self._pauses.get(index, ()):
                if pause_s > start_s:
                    yield index, start_s, pause_s, nodes
                start_s = again_s
            yield index, start_s, end_s, nodes

    def on_nodes(self, nodes: int) -> list[tuple[int, int, int, Intervals]]:
        """Return ``(index, start, end, nodes)`` of the stretches by start: on which of `nodes` each ran.

        Where the machine only counts its nodes, a run gets the lowest numbers that are free at its
        start: one way to give them numbers, and always the same. In a grid they are those of its parts,
        which are numbered through, part by part. Raises `InvalidInput` where more nodes are busy than
        there are.
        """
        parts = self.parts or (nodes,)
        free = [
            FreeNodes(count, first)
            for count, first in zip(parts, accumulate(parts, initial=0), strict=False)
        ]
        orders = self._orders
        # In this order the nodes suffice, whatever the order was within a second: runs that end give
        # their nodes back first, then come runs of no length, then the others.
        by_start = sorted(
            self.stretches(), key=lambda run: (run[1], run[2] > run[1], orders[run[0]])
        )
        running: list[tuple[int, int, list[Intervals]]] = []
        placed = []
        for index, start_s, end_s, width in by_start:
            while running and running[0][0] <= start_s:
                _give_back(free, heappop(running)[2])
            if index in self._named:
                placed.append((index, start_s, end_s, self._named[index]))
                continue
            wanted = self._placed.get(index) or (width,)
            found = [part.take(count) for part, count in zip(free, wanted, strict=True)]
            taken = [numbers for numbers in found if numbers is not None]
            if len(taken) < len(found):
                raise InvalidInput(
                    f"fewer than {width} nodes are free at {start_s}",
                    where=f"job {self.ids[index]}",
                    remedy="find the fault with kalends check-schedule",
                )
            placed.append((index, start_s, end_s, tuple(chain.from_iterable(taken))))
            if end_s > start_s:
                heappush(running, (end_s, orders[index], taken))
            else:
                _give_back(free, taken)
        return placed


def _give_back(free: Sequence[FreeNodes], taken: Sequence[Intervals]) -> None:
    for part, numbers in zip(free, taken, strict=True):
        part.give_back(numbers)
