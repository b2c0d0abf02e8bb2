"""A whole schedule in memory, for what needs all of it at once: job lists with node numbers, pictures."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

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

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, job: SimulatedJob) -> None:
        """One job has ended."""
        if job.partition is not None:
            self._named[len(self.ids)] = intervals(job.partition.nodes)
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

    def nodes_of_jobs(self, nodes: int) -> list[Intervals]:
        """Which of the machine's `nodes` nodes each job ran on, by index.

        Where the machine only counts its nodes, a job gets the lowest numbers that are free at its
        start: one way to give them numbers, and always the same. Raises `InvalidInput` where more nodes
        are busy than there are.
        """
        if self._named:
            return [self._named.get(index, ()) for index in range(len(self))]
        free = FreeNodes(nodes)
        found: list[Intervals] = [()] * len(self)
        for index, is_start in self._starts_and_ends():
            if not is_start:
                free.give_back(found[index])
                continue
            taken = free.take(self.widths[index])
            if taken is None:
                raise InvalidInput(
                    f"fewer than {self.widths[index]} nodes are free at {self.starts[index]}",
                    where=f"job {self.ids[index]}",
                    remedy="look for what is wrong: kalends check-schedule",
                )
            found[index] = taken
        return found

    def _starts_and_ends(self) -> Iterator[tuple[int, bool]]:
        """``(index, is a start)`` in order of time; ends first, then jobs of no length, then the rest.

        That is an order in which the nodes suffice whatever the order was within the second.
        """
        starts, ends, orders = self.starts, self.ends, self._orders
        by_start = sorted(
            range(len(self)), key=lambda i: (starts[i], ends[i] > starts[i], orders[i])
        )
        with_length = [index for index in range(len(self)) if ends[index] > starts[index]]
        by_end = iter(sorted(with_length, key=lambda i: (ends[i], orders[i])))
        next_end = next(by_end, None)
        for index in by_start:
            while next_end is not None and ends[next_end] <= starts[index]:
                yield next_end, False
                next_end = next(by_end, None)
            yield index, True
            if starts[index] == ends[index]:
                yield index, False
