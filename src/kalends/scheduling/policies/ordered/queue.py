"""The common part of most policies: one queue in order of submission."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.waiting_room import put_back


class QueuePolicy:
    """Keeps the waiting jobs in `queue`, in order of submission; `schedule` is the subclass's."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.wakes = cluster.reserved
        self.queue: deque[Job] = deque()

    def submitted(self, job: Job, now: int) -> None:
        self.queue.append(job)

    def ended(self, job: Job, now: int) -> None:
        """Note nothing."""

    def withdrawn(self, job: Job, now: int) -> None:
        self.queue.remove(job)

    def returned(self, job: Job, now: int) -> None:
        put_back(self.queue, job)

    def schedule(self, now: int) -> None:
        raise NotImplementedError

    def waiting(self) -> Iterator[Job]:
        return iter(self.queue)

    def wake_at(self, now: int) -> int | None:
        return self.cluster.next_change(now)
