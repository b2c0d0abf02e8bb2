"""Priority queues of jobs in front of the scheduler, emptied in finite blocks.

Gehring and Ramme 1996, section 3.1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from kalends.core.errors import InvalidInput
from kalends.scheduling.job import Job

EXTRACTION_ORDERS: Final = (1, 2, 4)
"""Default E(p_i): for jobs of priority 0, 1, and 2 or more."""


class WaitingRoom:
    """One queue for each priority from 0 up; higher priorities than the last use the last.

    `orders[i]` is the extraction order E(p_i) that the administrator gave queue i.
    """

    def __init__(self, orders: Sequence[int] = EXTRACTION_ORDERS) -> None:
        if not orders or min(orders) < 1:
            raise InvalidInput(
                f"extraction orders {list(orders)}",
                where="extraction orders",
                remedy="give 1 or more for each queue; with less a queue would never empty",
            )
        self.orders = tuple(orders)
        self.queues: tuple[deque[Job], ...] = tuple(deque() for _ in orders)

    def __len__(self) -> int:
        return sum(map(len, self.queues))

    def __iter__(self) -> Iterator[Job]:
        """Yield the most urgent queue first, each in order of arrival."""
        for queue in reversed(self.queues):
            yield from queue

    def put(self, job: Job) -> None:
        """Add a job at the end of its queue."""
        self._queue_of(job).append(job)

    def put_back(self, job: Job) -> None:
        """Add a job that has waited before, in order of submission."""
        put_back(self._queue_of(job), job)

    def remove(self, job: Job) -> None:
        """Remove a waiting job. Raises `ValueError` if it is not in the room."""
        self._queue_of(job).remove(job)

    def counts(self) -> tuple[int, ...]:
        """Return the number of jobs that the next block takes from each queue: ceil(N(p_i) E(p_i) / E_m).

        E_m is the highest extraction order of a queue that is not empty. So the queues with the highest
        order are emptied, and of every other one that is not empty at least one job is taken.
        """
        filled = [order for order, queue in zip(self.orders, self.queues, strict=True) if queue]
        highest = max(filled, default=1)
        return tuple(
            -(-len(queue) * order // highest)
            for order, queue in zip(self.orders, self.queues, strict=True)
        )

    def extract(self) -> list[Job]:
        """Take the next block out: the most urgent queue first, each in order of arrival."""
        block: list[Job] = []
        for queue, count in zip(reversed(self.queues), reversed(self.counts()), strict=True):
            block += [queue.popleft() for _ in range(count)]
        return block

    def copy(self) -> WaitingRoom:
        """Return a copy with the same jobs, to be emptied virtually."""
        twin = WaitingRoom(self.orders)
        for queue, own in zip(twin.queues, self.queues, strict=True):
            queue.extend(own)
        return twin

    def _queue_of(self, job: Job) -> deque[Job]:
        return self.queues[min(max(job.priority, 0), len(self.queues) - 1)]


def put_back(queue: deque[Job], job: Job) -> None:
    """Add a job to a queue at its place in order of submission."""
    behind = []
    while queue and queue[-1].order > job.order:
        behind.append(queue.pop())
    queue.append(job)
    queue.extend(reversed(behind))
