"""EASY backfilling: jobs may go before the head of the queue if they do not delay it.

Lifka 1995; called FCFS_SCANBackfill by Jones and Pang 2003 (section 4.10). The order of events and ties
is that of the published results of Gaussier et al., SC'15: one pass after every single event.
"""

from __future__ import annotations

from collections.abc import Iterable

from kalends.scheduling.cluster import Cluster, Promise
from kalends.scheduling.job import Job
from kalends.scheduling.policies.queue import QueuePolicy


class Easy(QueuePolicy):
    """Start heads while they fit; then promise the head its time, and start whoever leaves it standing.

    Between two ends, nothing that was refused before can be allowed: less is free, and it is later. So
    after a submission only the new job is looked at, under the promise of the pass before.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._promise: Promise | None = None
        """The head's, as long as it holds without a new look."""
        self._fresh: Job | None = None

    def submitted(self, job: Job, now: int) -> None:
        self.queue.append(job)
        self._fresh = job

    def ended(self, job: Job, now: int) -> None:
        self._promise = None

    def withdrawn(self, job: Job, now: int) -> None:
        super().withdrawn(job, now)
        self._promise = None

    def schedule(self, now: int) -> None:
        fresh, self._fresh = self._fresh, None
        queue, cluster, promise = self.queue, self.cluster, self._promise
        if promise is not None and fresh is not None and cluster.settled(now):
            if promise.allows(fresh, now) and cluster.start(fresh, now):
                queue.pop()
                promise.started(fresh, now)
            return
        while queue and cluster.start(queue[0], now):
            queue.popleft()
        if queue:
            self._promise = promise = cluster.promise(queue[0], now)
            if len(queue) > 1:
                self._backfill(promise, now)

    def _backfill(self, promise: Promise, now: int) -> None:
        cluster, queue = self.cluster, self.queue
        started = []
        for job in self.candidates():
            if promise.allows(job, now) and cluster.start(job, now):
                promise.started(job, now)
                started.append(job)
        for job in started:
            queue.remove(job)

    def candidates(self) -> Iterable[Job]:
        """Who may go before the head, in the order in which they are asked."""
        candidates = iter(self.queue)
        next(candidates)
        return candidates


class EasySjbf(Easy):
    """EASY with the shortest requested time first among those who backfill (Tsafrir et al. 2007)."""

    def candidates(self) -> Iterable[Job]:
        return sorted(super().candidates(), key=lambda job: job.requested_s)
