"""EASY backfilling: jobs may go before the head of the queue if they do not delay it.

Lifka 1995; called FCFS_SCANBackfill by Jones and Pang 2003 (section 4.10). The order of events and ties
is that of the published results of Gaussier et al., SC'15: one pass after every single event.
"""

from __future__ import annotations

from collections.abc import Iterator

from kalends.scheduling.cluster import Cluster, Promise
from kalends.scheduling.job import Job
from kalends.scheduling.line import Line, by_requested_time


class Easy:
    """Start heads while they fit; then promise the head its time, and start whoever leaves it standing.

    Between two ends, nothing that was refused before can be allowed: less is free, and it is later. So
    after a submission only the new job is looked at, under the promise of the pass before.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.line = Line()
        self._promise: Promise | None = None
        """The head's, as long as it holds without a new look."""
        self._fresh: Job | None = None

    def submitted(self, job: Job, now: int) -> None:
        self.line.append(job)
        self._fresh = job

    def ended(self, job: Job, now: int) -> None:
        self._promise = None

    def withdrawn(self, job: Job, now: int) -> None:
        self.line.remove(job)
        self._promise = None

    def schedule(self, now: int) -> None:
        fresh, self._fresh = self._fresh, None
        cluster, promise = self.cluster, self._promise
        if promise is not None and fresh is not None and cluster.settled(now):
            if promise.allows(fresh, now) and cluster.start(fresh, now):
                promise.started(fresh, now)
                self.started(fresh)
            return
        line = self.line
        while (head := line.head()) is not None:
            if not cluster.start(head, now):
                self._promise = cluster.promise(head, now)
                self._backfill(head, self._promise, now)
                return
            self.started(head)

    def waiting(self) -> Iterator[Job]:
        return iter(self.line)

    def wake_at(self, now: int) -> int | None:
        return self.cluster.next_change(now) if self.cluster.reserved else None

    def started(self, job: Job) -> None:
        """A waiting job was started: it waits no more."""
        self.line.remove(job)

    def candidates(self, nodes: int, time_s: int, extra: int) -> list[Job]:
        """Who could go before the head, in the order in which they are asked (see `Line.startable`)."""
        return self.line.startable(nodes, time_s, extra)

    def _backfill(self, head: Job, promise: Promise, now: int) -> None:
        cluster = self.cluster
        free = cluster.free_at(now)
        if free <= 0:
            return
        for job in self.candidates(free, promise.shadow_s - now, promise.extra):
            if job.nodes > free or job is head or not promise.allows(job, now):
                continue
            if cluster.start(job, now):
                free -= job.granted
                promise.started(job, now)
                self.started(job)


class EasySjbf(Easy):
    """EASY with the shortest requested time first among those who backfill (Tsafrir et al. 2007)."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.shortest = Line(by_requested_time)

    def submitted(self, job: Job, now: int) -> None:
        super().submitted(job, now)
        self.shortest.add(job)

    def withdrawn(self, job: Job, now: int) -> None:
        super().withdrawn(job, now)
        self.shortest.remove(job)

    def started(self, job: Job) -> None:
        super().started(job)
        self.shortest.remove(job)

    def candidates(self, nodes: int, time_s: int, extra: int) -> list[Job]:
        return self.shortest.startable(nodes, time_s, extra)
