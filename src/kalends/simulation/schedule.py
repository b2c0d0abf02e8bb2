"""A whole schedule in memory, for what needs all of it at once: job lists with node numbers, pictures."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from heapq import heappop, heappush

from kalends.core.errors import InvalidInput
from kalends.simulation.free_nodes import FreeNodes, Intervals, intervals
from kalends.simulation.job import SimulatedJob


class Schedule:
    """Columns with one entry for each ended job, in order of ends: 8 bytes an entry.

    `add` is a watcher for `kalends.simulation.running.simulate`. `name` is what legends call it.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.ids = array("q")
        self.submits = array("q")
        self.starts = array("q")
        self.ends = array("q")
        self.widths = array("q")
        """Nodes of each job."""
        self.requested = array("q")
        """Requested times."""
        self._orders = array("q")
        self._named: dict[int, Intervals] = {}
        """The nodes of jobs that ran on named ones, by index."""
        self._pauses: dict[int, tuple[tuple[int, int], ...]] = {}
        """When preempted jobs did not run, by index."""

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, job: SimulatedJob) -> None:
        """One job has ended."""
        if job.partition is not None:
            self._named[len(self.ids)] = intervals(job.partition.nodes)
        if job.pauses:
            self._pauses[len(self.ids)] = job.pauses
        self.ids.append(job.id)
        self.submits.append(job.submit_s)
        self.starts.append(job.start_s)
        self.ends.append(job.end_s)
        self.widths.append(job.nodes)
        self.requested.append(job.requested_s)
        self._orders.append(job.order)

    def by_submission(self) -> list[int]:
        """The indices of all jobs, in order of submission."""
        return sorted(range(len(self)), key=self._orders.__getitem__)

    def stretches(self) -> Iterator[tuple[int, int, int]]:
        """``(index, start, end)`` of every run, by index; of a preempted job those before and after too."""
        for index, (start_s, end_s) in enumerate(zip(self.starts, self.ends, strict=True)):
            for pause_s, again_s in self._pauses.get(index, ()):
                if pause_s > start_s:
                    yield index, start_s, pause_s
                start_s = again_s
            yield index, start_s, end_s

    def on_nodes(self, nodes: int) -> list[tuple[int, int, int, Intervals]]:
        """The stretches in order of starts, each with which of the machine's `nodes` nodes it ran on.

        Where the machine only counts its nodes, a run gets the lowest numbers that are free at its
        start: one way to give them numbers, and always the same. Raises `InvalidInput` where more nodes
        are busy than there are.
        """
        free = FreeNodes(nodes)
        orders, widths = self._orders, self.widths
        # In this order the nodes suffice, whatever the order was within a second: runs that end give
        # their nodes back first, then come runs of no length, then the others.
        by_start = sorted(
            self.stretches(), key=lambda run: (run[1], run[2] > run[1], orders[run[0]])
        )
        running: list[tuple[int, int, Intervals]] = []
        placed = []
        for index, start_s, end_s in by_start:
            while running and running[0][0] <= start_s:
                free.give_back(heappop(running)[2])
            taken = self._named.get(index) if self._named else free.take(widths[index])
            if taken is None:
                raise InvalidInput(
                    f"fewer than {widths[index]} nodes are free at {start_s}",
                    where=f"job {self.ids[index]}",
                    remedy="look for what is wrong: kalends check-schedule",
                )
            placed.append((index, start_s, end_s, taken))
            if self._named:
                continue
            if end_s > start_s:
                heappush(running, (end_s, orders[index], taken))
            else:
                free.give_back(taken)
        return placed
