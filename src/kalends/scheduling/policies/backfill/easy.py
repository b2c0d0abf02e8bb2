"""EASY backfilling: jobs may go before the head of the queue if they do not delay it.

Lifka 1995; called FCFS_SCANBackfill by Jones and Pang 2003 (section 4.10). The order of events and ties
is that of the published results of Gaussier et al., SC'15: one pass after every single event.
"""

from __future__ import annotations

from collections.abc import Iterator

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.indexed_queue import IndexedQueue, by_requested_time
from kalends.scheduling.job import Job
from kalends.scheduling.leeway import Leeway
from kalends.scheduling.promise import Promise


class Easy:
    """Start heads while they fit; then promise the head its time, and start jobs that keep it.

    Between two ends, a refused job stays refused: less is free, and it is later. So after a submission
    only the new job is tried. The head's promise is computed on demand.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.wakes = cluster.reserved
        self.line = IndexedQueue()
        self.startable = self.line.startable
        """Candidates to go before the head, in the order in which they are tried."""
        self._first: Job | None = None
        """The head of the queue."""
        self._blocked = False
        """Whether the head was refused and no nodes have become free since."""
        self._promise: Promise | None = None
        """The head's promise; None: not computed."""
        self._fresh: Job | None = None
        """Jobs just submitted and not queued yet, because most start at once."""
        self._revision = cluster.revision

    def submitted(self, job: Job, now: int) -> None:
        assert self._fresh is None, "a pass follows every submission"
        self._fresh = job

    def ended(self, job: Job, now: int) -> None:
        self._blocked = False

    def withdrawn(self, job: Job, now: int) -> None:
        self.leave(job)
        self._blocked = False

    def returned(self, job: Job, now: int) -> None:
        self.line.add(job)
        self._first = self.line.head()
        self._blocked = False

    def schedule(self, now: int) -> None:
        if self._revision != self.cluster.revision:
            self._revision, self._blocked = self.cluster.revision, False
        fresh, head = self._fresh, self._first
        if fresh is None:
            if head is not None:
                self._pass(head, now)
            return
        self._fresh = None
        if head is None:
            if not self.cluster.start(fresh, now):
                self.enter(fresh)
        elif not self._blocked or not self.cluster.settled(now):
            self.enter(fresh)
            self._pass(head, now)
        elif fresh.nodes > self.cluster.free or not self._start_before(head, fresh, now):
            self.enter(fresh)

    def waiting(self) -> Iterator[Job]:
        return iter(self.line)

    def wake_at(self, now: int) -> int | None:
        return self.cluster.next_change(now)

    def enter(self, job: Job) -> None:
        """Let a job wait."""
        self.line.add(job)
        if self._first is None:
            self._first = job

    def leave(self, job: Job) -> None:
        """Remove a waiting job."""
        self.line.remove(job)
        if job is self._first:
            self._first = self.line.head()

    def least_nodes(self) -> int:
        """Return a lower bound of the nodes of any job that waits."""
        return self.line.least_nodes

    def _pass(self, head: Job, now: int) -> None:
        """Try all waiting jobs, the head first."""
        cluster = self.cluster
        free = cluster.room(now)
        self._promise = None
        while head.nodes <= free and cluster.start(head, now):
            free -= head.granted
            self.leave(head)
            if self._first is None:
                return
            head = self._first
        self._blocked = True
        self._backfill(head, free, now)

    def _backfill(self, head: Job, free: int, now: int) -> None:
        """Start jobs that may go before the head, on the free nodes."""
        if self.least_nodes() > free:
            return
        self._promise = promise = self.cluster.promise(head, now)
        started = [
            job
            for job in self._candidates(promise.leeway, now)
            if job is not head and self._start_before(head, job, now)
        ]
        for job in started:
            self.leave(job)

    def _candidates(self, leeway: Leeway, now: int) -> Iterator[Job]:
        """Yield the jobs that may start before the head; `leeway` is left by the promise."""
        return self.startable(leeway, now)

    def _start_before(self, head: Job, job: Job, now: int) -> bool:
        """Start a job if it leaves the head its promise; return whether it did."""
        promise = self._promise
        if promise is None:
            self._promise = promise = self.cluster.promise(head, now)
        if promise.allows(job, now) and self.cluster.start(job, now):
            promise.started(job, now)
            return True
        return False


class EasySjbf(Easy):
    """EASY with the shortest requested time first among backfilled jobs (Tsafrir et al. 2007)."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.shortest = IndexedQueue(by_requested_time)
        self.startable = self.shortest.startable

    def enter(self, job: Job) -> None:
        super().enter(job)
        self.shortest.add(job)

    def returned(self, job: Job, now: int) -> None:
        super().returned(job, now)
        self.shortest.add(job)

    def leave(self, job: Job) -> None:
        super().leave(job)
        self.shortest.remove(job)
