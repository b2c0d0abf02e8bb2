"""RS: running jobs give nodes to those that wait, and take them when none does.

Konuru, Moreira and Naik 1996, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job, Moldability
from kalends.scheduling.policies.moldable import Adaptive

INTERVAL: Final = 10
"""Between two changes of a job, in times of what a change costs it."""


class Reconfigurable(Adaptive):
    """Starts jobs as AS does; then shrinks malleable jobs for those that wait, or expands them if none does.

    A job is not asked to change within `interval` times its reconfiguration time after it was asked
    before. The paper leaves open which jobs are changed. Here, waiting jobs are looked at in order of
    submission; for each that could then start on its smallest size, nodes are taken from the jobs with
    the largest excess over their minimum, and as few as their sizes allow. Expanded is the job that
    gains most time by it, as far as it can, if it gains any.
    """

    def __init__(self, cluster: Cluster, interval: int = INTERVAL) -> None:
        super().__init__(cluster)
        self.wakes = True
        self.interval = interval
        self._asked_s: dict[int, int] = {}
        """When each running job was last asked to change, by its order."""

    def ended(self, job: Job, now: int) -> None:
        self._asked_s.pop(job.order, None)

    def schedule(self, now: int) -> None:
        super().schedule(now)
        if self.queue:
            self._shrink(now)
        else:
            self._expand(now)

    def wake_at(self, now: int) -> int | None:
        """When the next job may be changed again that is wanted for it."""
        wakes = [super().wake_at(now)]
        if self.queue or self.cluster.free > 0:
            wakes += [
                self._allowed_s(job, molds)
                for job, molds in self._malleable(now)
                if (job.granted > molds.sizes[0] if self.queue else job.granted < molds.sizes[-1])
            ]
        return min((wake for wake in wakes if wake is not None and wake > now), default=None)

    def _shrink(self, now: int) -> None:
        coming = 0
        for _, _, job in self.cluster.ends:
            if job.target:
                coming += job.granted - job.target
        room = self.cluster.room(now) + coming
        givers = self._changeable(now)
        givers.sort(key=lambda each: (each[1].sizes[0] - each[0].granted, -each[0].order))
        excess = sum(job.granted - molds.sizes[0] for job, molds in givers)
        for waiting in self.queue:
            needed = waiting.molds.sizes[0] if waiting.molds is not None else waiting.nodes
            if needed > room + excess:
                continue
            while needed > room and givers:
                job, molds = givers.pop(0)
                before = job.granted
                excess -= before - molds.sizes[0]
                enough = [nodes for nodes in molds.sizes if nodes <= before - (needed - room)]
                smaller = enough[-1] if enough else molds.sizes[0]
                if smaller < before and self._ask(job, smaller, now):
                    room += before - smaller
            room = max(room - needed, 0)

    def _expand(self, now: int) -> None:
        while self.cluster.free > 0:
            best_s, best = 0, None
            for job, molds in self._changeable(now):
                left_s, on_now_s = job.until_s - now, molds.requested_on(job.granted)
                for nodes, requested_s in zip(molds.sizes, molds.requested_s, strict=True):
                    if job.granted < nodes <= job.granted + self.cluster.free:
                        gain_s = left_s - left_s * requested_s // on_now_s - molds.reconfiguration_s
                        if gain_s > best_s:
                            best_s, best = gain_s, (job, nodes)
            if best is None or not self._ask(*best, now):
                return

    def _malleable(self, now: int) -> Iterator[tuple[Job, Moldability]]:
        """Those that run and are not changing, nor over."""
        for until_s, _, job in self.cluster.ends:
            if job.molds is not None and job.molds.malleable and not job.target and until_s > now:
                yield job, job.molds

    def _changeable(self, now: int) -> list[tuple[Job, Moldability]]:
        """The running jobs that may be asked to change now."""
        return [each for each in self._malleable(now) if self._allowed_s(*each) <= now]

    def _allowed_s(self, job: Job, molds: Moldability) -> int:
        """When it may be asked: not in the second in which it began, nor within the interval."""
        asked_s = self._asked_s.get(job.order)
        if asked_s is None:
            return job.start_s + 1
        return asked_s + max(self.interval * molds.reconfiguration_s, 1)

    def _ask(self, job: Job, nodes: int, now: int) -> bool:
        asked = self.cluster.resize(job, nodes, now)
        if asked:
            self._asked_s[job.order] = now
        return asked
