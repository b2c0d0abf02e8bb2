"""Waiting jobs in a fixed order, indexed so that jobs that could start are found without a walk."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any, Final

from kalends.scheduling.job import Job

BLOCK_JOBS_MAX: Final = 64
"""Beyond it a block is split: small enough to be passed over often, large enough to be few."""

_NOBODY: Final = 1 << 62


def by_order(job: Job) -> int:
    """Return the order of submission."""
    return job.order


def by_requested_time(job: Job) -> tuple[int, int]:
    """Return the shortest first, ties in order of submission."""
    return (job.requested_s, job.order)


class IndexedQueue:
    """Jobs sorted by `key` (unique), in blocks that know their least nodes and shortest time.

    A block without a job that could start is skipped: a search of ten thousand waiting jobs touches a
    few hundred. Adding and removing cost a bisection and a move within one block.
    """

    __slots__ = (
        "_blocks",
        "_firsts",
        "_key",
        "_least_nodes",
        "_shortest_s",
        "_stale",
        "least_nodes",
    )

    def __init__(self, key: Callable[[Job], Any] = by_order) -> None:
        self._key = key
        self.least_nodes = _NOBODY
        """Lower bound of the nodes of any job; for an empty queue more than any machine has."""
        self._blocks: list[list[Job]] = []
        self._firsts: list[Any] = []
        self._least_nodes: list[int] = []
        self._shortest_s: list[int] = []
        self._stale: list[bool] = []
        """Whether a job has left, so that the two bounds may be too low, though still true."""

    def __deepcopy__(self, memo: dict[int, Any]) -> IndexedQueue:
        # A frozen scheduler is copied for every prediction: keys and bounds never change and are shared.
        copied = IndexedQueue(self._key)
        copied._blocks = deepcopy(self._blocks, memo)
        copied._firsts = self._firsts.copy()
        copied._least_nodes = self._least_nodes.copy()
        copied._shortest_s = self._shortest_s.copy()
        copied._stale = self._stale.copy()
        copied.least_nodes = self.least_nodes
        return copied

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def __iter__(self) -> Iterator[Job]:
        for block in self._blocks:
            yield from block

    def head(self) -> Job | None:
        """Return the first; None of an empty line."""
        return self._blocks[0][0] if self._blocks else None

    def append(self, job: Job) -> None:
        """Put a job last. Its key must be greater than all others: this is `add` without a search."""
        if not self._blocks:
            self._insert_block(0, [job])
            return
        self._blocks[-1].append(job)
        self._note(-1, job)

    def add(self, job: Job) -> None:
        """Put a job where its key belongs."""
        key = self._key(job)
        if not self._blocks:
            self._insert_block(0, [job])
            return
        at = max(bisect_right(self._firsts, key) - 1, 0)
        block = self._blocks[at]
        if self._key(block[-1]) < key:
            block.append(job)
        else:
            block.insert(bisect_right(block, key, key=self._key), job)
            self._firsts[at] = self._key(block[0])
        self._note(at, job)

    def remove(self, job: Job) -> None:
        """Take a job out. Raises `ValueError` if it is not in line."""
        if not self._blocks:
            raise ValueError(f"job {job.id} is not in line")
        at = 0 if len(self._blocks) == 1 else max(bisect_right(self._firsts, self._key(job)) - 1, 0)
        block = self._blocks[at]
        if block[0] is not job:
            block.remove(job)
        elif len(block) == 1:
            self._delete_block(at)
            return
        else:
            del block[0]
            self._firsts[at] = self._key(block[0])
        self._stale[at] = True

    def startable(self, nodes: int, time_s: int, extra: int) -> Iterable[Job]:
        """Yield jobs of at most `nodes` that end within `time_s` or take at most `extra`, in order.

        Lazy: stop when enough are found. No job may come or leave meanwhile.
        """
        # Nearly always one block is all there is, and a generator for it would cost more than the look.
        if len(self._blocks) == 1:
            return self._startable_in(0, nodes, time_s, extra)
        return self._startable_in_turn(nodes, time_s, extra)

    def _startable_in_turn(self, nodes: int, time_s: int, extra: int) -> Iterator[Job]:
        shortest_s = self._shortest_s
        for at, least in enumerate(self._least_nodes):
            if least <= nodes and (least <= extra or shortest_s[at] <= time_s):
                yield from self._startable_in(at, nodes, time_s, extra)

    def _startable_in(self, at: int, nodes: int, time_s: int, extra: int) -> list[Job]:
        here = [
            job
            for job in self._blocks[at]
            if job.nodes <= nodes and (job.requested_s <= time_s or job.nodes <= extra)
        ]
        if not here and self._stale[at]:
            self._refresh(at)
        return here

    def first_fit(self, nodes: int, start: Callable[[Job], bool]) -> list[Job]:
        """Ask jobs of at most `nodes` in order to start; remove and return the first that does.

        What one is granted the others have no more: blocks of wider jobs are passed over from then on.
        """
        started: list[Job] = []
        for at, least in enumerate(self._least_nodes):
            if least > nodes:
                continue
            here = [job for job in self._blocks[at] if job.nodes <= nodes]
            for job in here:
                if job.nodes <= nodes and start(job):
                    started.append(job)
                    nodes -= job.granted
            if nodes <= 0:
                break
            if not here and self._stale[at]:
                self._refresh(at)
        for job in started:
            self.remove(job)
        return started

    def check(self) -> None:
        """Check the invariants."""
        keys = [self._key(job) for job in self]
        assert keys == sorted(keys), "jobs stand in order"
        for at, block in enumerate(self._blocks):
            assert 0 < len(block) <= BLOCK_JOBS_MAX
            assert self._firsts[at] == self._key(block[0])
            least = min(job.nodes for job in block)
            shortest_s = min(job.requested_s for job in block)
            if self._stale[at]:
                assert self._least_nodes[at] <= least
                assert self._shortest_s[at] <= shortest_s
            else:
                assert (self._least_nodes[at], self._shortest_s[at]) == (least, shortest_s)

    def _refresh(self, at: int) -> None:
        self._least_nodes[at] = min([job.nodes for job in self._blocks[at]])
        self._shortest_s[at] = min([job.requested_s for job in self._blocks[at]])
        self._stale[at] = False
        self.least_nodes = min(self._least_nodes)

    def _note(self, at: int, job: Job) -> None:
        """Note that a job has entered a block."""
        if job.nodes < self._least_nodes[at]:
            self._least_nodes[at] = job.nodes
            if job.nodes < self.least_nodes:
                self.least_nodes = job.nodes
        if job.requested_s < self._shortest_s[at]:
            self._shortest_s[at] = job.requested_s
        if len(self._blocks[at]) > BLOCK_JOBS_MAX:
            self._split(at % len(self._blocks))

    def _split(self, at: int) -> None:
        block = self._blocks[at]
        half = len(block) // 2
        self._delete_block(at)
        self._insert_block(at, block[half:])
        self._insert_block(at, block[:half])

    def _insert_block(self, at: int, block: list[Job]) -> None:
        self._blocks.insert(at, block)
        self._firsts.insert(at, self._key(block[0]))
        self._least_nodes.insert(at, min([job.nodes for job in block]))
        self._shortest_s.insert(at, min([job.requested_s for job in block]))
        self._stale.insert(at, False)
        self.least_nodes = min(self._least_nodes)

    def _delete_block(self, at: int) -> None:
        del self._blocks[at], self._firsts[at], self._stale[at]
        del self._least_nodes[at], self._shortest_s[at]
        self.least_nodes = min(self._least_nodes, default=_NOBODY)
