"""A line of waiting jobs of the same number of nodes, in which short ones are found without a walk."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Final

from kalends.scheduling.job import Job
from kalends.scheduling.leeway import Leeway
from kalends.scheduling.profile import NEVER

BLOCK_JOBS_MAX: Final = 64
"""Largest block, above which it is split: small enough to skip often, large enough to be few."""


class WidthLine:
    """Jobs sorted by `key` (unique), in blocks that know their shortest time.

    Adding and removing cost a bisection and a move within one block.
    """

    __slots__ = ("_blocks", "_firsts", "_key", "_shortest_s", "_stale", "shortest_s")

    def __init__(self, key: Callable[[Job], Any]) -> None:
        self._key = key
        self.shortest_s = NEVER
        """Lower bound of the requested time of any job."""
        self._blocks: list[list[Job]] = []
        self._firsts: list[Any] = []
        self._shortest_s: list[int] = []
        self._stale: list[bool] = []
        """Whether a job has left, so that the shortest time may be too low, though still a bound."""

    def __deepcopy__(self, memo: dict[int, Any]) -> WidthLine:
        copied = WidthLine(self._key)
        copied.shortest_s = self.shortest_s
        copied._blocks = [[deepcopy(job, memo) for job in block] for block in self._blocks]
        copied._firsts = self._firsts.copy()
        copied._shortest_s = self._shortest_s.copy()
        copied._stale = self._stale.copy()
        return copied

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def __iter__(self) -> Iterator[Job]:
        for block in self._blocks:
            yield from block

    def head(self) -> Job:
        """Return the first job of a line, which must not be empty."""
        return self._blocks[0][0]

    def add(self, job: Job) -> None:
        """Add a job at the place of its key."""
        if not self._blocks:
            self._insert_block(0, [job])
            return
        key = self._key(job)
        at = max(bisect_right(self._firsts, key) - 1, 0)
        block = self._blocks[at]
        if self._key(block[-1]) < key:
            block.append(job)
        else:
            block.insert(bisect_right(block, key, key=self._key), job)
            self._firsts[at] = self._key(block[0])
        if job.requested_s < self._shortest_s[at]:
            self._shortest_s[at] = job.requested_s
            self.shortest_s = min(self.shortest_s, job.requested_s)
        if len(block) > BLOCK_JOBS_MAX:
            half = len(block) // 2
            self._delete_block(at)
            self._insert_block(at, block[half:])
            self._insert_block(at, block[:half])

    def remove(self, job: Job) -> None:
        """Take a job out. Raises `ValueError` if it is not in the queue."""
        at = 0
        if len(self._blocks) > 1:
            at = max(bisect_right(self._firsts, self._key(job)) - 1, 0)
        block = self._blocks[at]
        first = block[0] is job
        block.remove(job)
        if not block:
            self._delete_block(at)
            return
        if first:
            self._firsts[at] = self._key(block[0])
        self._stale[at] = True

    def startable(self, nodes: int, leeway: Leeway, now: int) -> Iterator[Job]:
        """Yield the jobs that end while their `nodes` are free; `leeway` may shrink in the meantime."""
        longest_s = leeway.until(nodes) - now
        for at, shortest_s in enumerate(self._shortest_s):
            if shortest_s > longest_s:
                continue
            found = False
            for job in self._blocks[at]:
                if job.requested_s <= longest_s:
                    found = True
                    yield job
                    longest_s = leeway.until(nodes) - now
            if not found and self._stale[at]:
                self._refresh(at)

    def check(self) -> None:
        """Check the invariants."""
        keys = [self._key(job) for job in self]
        assert keys == sorted(keys), "jobs stand in order"
        assert self.shortest_s == min(self._shortest_s)
        for at, block in enumerate(self._blocks):
            assert 0 < len(block) <= BLOCK_JOBS_MAX
            assert self._firsts[at] == self._key(block[0])
            shortest_s = min(job.requested_s for job in block)
            assert self._shortest_s[at] <= shortest_s
            assert self._stale[at] or self._shortest_s[at] == shortest_s

    def _refresh(self, at: int) -> None:
        self._shortest_s[at] = min([job.requested_s for job in self._blocks[at]])
        self._stale[at] = False
        self.shortest_s = min(self._shortest_s)

    def _insert_block(self, at: int, block: list[Job]) -> None:
        self._blocks.insert(at, block)
        self._firsts.insert(at, self._key(block[0]))
        self._shortest_s.insert(at, min([job.requested_s for job in block]))
        self._stale.insert(at, False)
        self.shortest_s = min(self._shortest_s)

    def _delete_block(self, at: int) -> None:
        del self._blocks[at], self._firsts[at], self._shortest_s[at], self._stale[at]
        self.shortest_s = min(self._shortest_s, default=NEVER)
