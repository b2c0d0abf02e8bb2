"""Waiting jobs in a fixed order, indexed so that jobs that could start are found without a walk."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator
from copy import deepcopy
from heapq import heapify, heappop, heappush, heapreplace, merge
from itertools import islice
from typing import Any, Final

from kalends.scheduling.job import Job
from kalends.scheduling.leeway import Leeway
from kalends.scheduling.width_line import WidthLine

FEW_JOBS_MAX: Final = 128
"""Up to this many jobs are tried one by one; lines for more are kept until a quarter remains."""

_NOBODY: Final = 1 << 62


def by_order(job: Job) -> int:
    """Return the order of submission."""
    return job.order


def by_requested_time(job: Job) -> tuple[int, int]:
    """Return the shortest first, ties in order of submission."""
    return (job.requested_s, job.order)


class IndexedQueue:
    """Jobs sorted by `key` (unique); if they are many, in a line for each number of nodes.

    A search asks once for each number of nodes how long it is free. Ten thousand waiting jobs have few
    numbers of nodes, and only lines that are narrow enough, with a job that is short enough, are searched.
    """

    __slots__ = ("_few", "_heads", "_in_lines", "_key", "_lines", "_widths", "least_nodes")

    def __init__(self, key: Callable[[Job], Any] = by_order) -> None:
        self._key = key
        self.least_nodes = _NOBODY
        """The fewest nodes of any job; for an empty queue more than any machine has."""
        self._few: list[Job] = []
        """All jobs, sorted, while they are few."""
        self._lines: dict[int, WidthLine] = {}
        """All jobs by their nodes, while they are many. None is empty."""
        self._in_lines = 0
        """Number of jobs in lines."""
        self._widths: list[int] = []
        """The numbers of nodes of the lines, ascending."""
        self._heads: list[tuple[Any, int]] = []
        """A heap of the keys and nodes of the lines' heads, and of some that are no longer heads."""

    def __deepcopy__(self, memo: dict[int, Any]) -> IndexedQueue:
        # A frozen scheduler is copied for every prediction: keys never change and are shared.
        copied = IndexedQueue(self._key)
        copied.least_nodes, copied._in_lines = self.least_nodes, self._in_lines
        copied._few = [deepcopy(job, memo) for job in self._few]
        copied._lines = {nodes: deepcopy(line, memo) for nodes, line in self._lines.items()}
        copied._widths, copied._heads = self._widths.copy(), self._heads.copy()
        return copied

    def __bool__(self) -> bool:
        return bool(self._few or self._lines)

    def __len__(self) -> int:
        return self._in_lines or len(self._few)

    def __iter__(self) -> Iterator[Job]:
        return merge(*self._lines.values(), key=self._key) if self._lines else iter(self._few)

    def head(self) -> Job | None:
        """Return the first job; None if the queue is empty."""
        heads = self._heads
        while heads:
            key, nodes = heads[0]
            line = self._lines.get(nodes)
            if line is not None and self._key(line.head()) == key:
                return line.head()
            heappop(heads)
        return self._few[0] if self._few else None

    def add(self, job: Job) -> None:
        """Add a job at the place of its key."""
        if job.nodes < self.least_nodes:
            self.least_nodes = job.nodes
        if self._lines:
            self._join(job)
            return
        few = self._few
        if not few or self._key(few[-1]) < self._key(job):
            few.append(job)
        else:
            insort(few, job, key=self._key)
        if len(few) > FEW_JOBS_MAX:
            self._few = []
            for each in few:
                self._join(each)

    def remove(self, job: Job) -> None:
        """Take a job out. Raises `ValueError` if it is not in the queue."""
        if self._lines:
            self._part(job)
        else:
            self._few.remove(job)
        if job.nodes == self.least_nodes:
            widths = self._widths[:1] or [each.nodes for each in self._few]
            self.least_nodes = min(widths, default=_NOBODY)

    def startable(self, leeway: Leeway, now: int) -> Iterator[Job]:
        """Yield the jobs that could run from now on with the nodes that are free, in order.

        A caller that starts one takes its nodes from `leeway`; jobs that no longer fit are then passed over.
        No job may be added or removed in the meantime.
        """
        return (self._startable_of_lines if self._lines else self._startable_of_few)(leeway, now)

    def check(self) -> None:
        """Check the invariants."""
        jobs = list(self)
        assert len(self) == len(jobs)
        assert jobs == sorted(jobs, key=self._key), "jobs stand in order"
        assert self.least_nodes == min([job.nodes for job in jobs], default=_NOBODY)
        assert not self._few or not self._lines
        assert len(self._few) <= FEW_JOBS_MAX
        assert self._widths == sorted(self._lines)
        for nodes, line in self._lines.items():
            assert {job.nodes for job in line} == {nodes}
            line.check()

    def _join(self, job: Job) -> None:
        line = self._lines.get(job.nodes)
        if line is None:
            line = self._lines[job.nodes] = WidthLine(self._key)
            insort(self._widths, job.nodes)
        line.add(job)
        self._in_lines += 1
        if line.head() is job:
            heappush(self._heads, (self._key(job), job.nodes))

    def _part(self, job: Job) -> None:
        nodes = job.nodes
        line = self._lines.get(nodes)
        if line is None:
            raise ValueError(f"job {job.id}is not in the queue")
        line.remove(job)
        if not line:
            del self._lines[nodes]
            self._widths.remove(nodes)
        elif (key := self._key(line.head())) > self._key(job):
            heappush(self._heads, (key, nodes))
        self._in_lines -= 1
        if self._in_lines <= FEW_JOBS_MAX // 4:
            self._few, self._lines, self._widths, self._heads = list(self), {}, [], []
            self._in_lines = 0

    def _startable_of_few(self, leeway: Leeway, now: int) -> Iterator[Job]:
        until, widest = leeway.until, leeway.widest
        # No other number of nodes is free for longer.
        longest_s = until(self.least_nodes) - now
        for job in self._few:
            length_s = job.requested_s
            if job.nodes <= widest and length_s <= longest_s and now + length_s <= until(job.nodes):
                yield job
                widest = leeway.widest
                if widest <= 0:
                    break

    def _startable_of_lines(self, leeway: Leeway, now: int) -> Iterator[Job]:
        key = self._key
        firsts: list[tuple[Any, Job, Iterator[Job]]] = []
        for nodes in self._widths:
            longest_s = leeway.until(nodes) - now
            if longest_s < 0:
                break
            line = self._lines[nodes]
            if line.shortest_s <= longest_s:
                jobs = line.startable(nodes, leeway, now)
                firsts += [(key(job), job, jobs) for job in islice(jobs, 1)]
        heapify(firsts)
        while firsts and leeway.widest > 0:
            _, job, jobs = firsts[0]
            if now + job.requested_s <= leeway.until(job.nodes):
                yield job
            following = next(jobs, None)
            if following is None:
                heappop(firsts)
            else:
                heapreplace(firsts, (key(following), following, jobs))
