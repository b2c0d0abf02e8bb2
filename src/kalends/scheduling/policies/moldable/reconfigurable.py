"""RS: running jobs give nodes to waiting ones, and take them when none wait.

Konuru, Moreira and Naik 1996, section 3.
"""

from __future__ import annotations

from typing import Final

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job, Moldability
from kalends.scheduling.molding import sizes_of
from kalends.scheduling.policies.moldable.moldable import Adaptive

INTERVAL: Final = 10
"""Time between two changes of a job, in multiples of a change's cost."""


class Reconfigurable(Adaptive):
    """Starts jobs like AS; then shrinks malleable jobs for waiting ones, or expands them if none wait.

    A job is not asked to change within `interval` times its reconfiguration time after it was asked
    before. The paper leaves open which jobs are changed. Here, waiting jobs are examined in order of
    submission; for each that could then start on its smallest size, nodes are taken from the jobs with
    the largest excess over their minimum, and as few as their sizes allow. The job that gains most time
    expands, as far as it can, if any gains.
    """

    def __init__(self, cluster: Cluster, interval: int = INTERVAL) -> None:
        super().__init__(cluster)
        self.wakes = True
        self.interval = interval
        self._rests_until_s: dict[int, int] = {}
        """The time until which each running job must not be asked to change again, by its order."""

    def ended(self, job: Job, now: int) -> None:
        self._rests_until_s.pop(job.order, None)

    def schedule(self, now: int) -> None:
        super().schedule(now)
        if self.queue:
            self._shrink(now)
        else:
            self._expand(now)

    def wake_at(self, now: int) -> int | None:
        """Return when the next job to be changed may be changed again."""
        wake_s = super().wake_at(now)
        for allowed_s, _, _ in self._wanted(now):
            if allowed_s > now and (wake_s is None or allowed_s < wake_s):
                wake_s = allowed_s
        return wake_s

    def _shrink(self, now: int) -> None:
        givers = self._changeable(now)
        if not givers:
            return
        givers.sort(key=lambda each: (each[1].sizes[0] - each[0].granted, -each[0].order))
        excess = sum(job.granted - molds.sizes[0] for job, molds in givers)
        coming = sum(job.granted - job.target for _, _, job in self.cluster.ends if job.target)
        room = self.cluster.room(now) + coming
        for waiting in self.queue:
            if not givers:
                return
            needed = sizes_of(waiting)[0]
            if needed > room + excess:
                continue
            while needed > room and givers:
                job, molds = givers.pop(0)
                before = job.granted
                excess -= before - molds.sizes[0]
                enough = [nodes for nodes in molds.sizes if nodes <= before - (needed - room)]
                smaller = enough[-1] if enough else molds.sizes[0]
                if self.ask(job, smaller, now):
                    room += before - smaller
            room = max(room - needed, 0)

    def _expand(self, now: int) -> None:
        while self.cluster.free > 0:
            best_s, best = 0, None
            for job, molds in self._changeable(now):
                left_s, most = job.until_s - now, job.granted + self.cluster.free
                for nodes in molds.sizes:
                    if job.granted < nodes <= most:
                        gain_s = left_s - molds.left_on(nodes, left_s, job.granted)
                        gain_s -= molds.reconfiguration_s
                        if gain_s > best_s:
                            best_s, best = gain_s, (job, nodes)
            if best is None or not self.ask(*best, now):
                return

    def _changeable(self, now: int) -> list[tuple[Job, Moldability]]:
        """Return the running jobs that may be asked now for the desired change."""
        return [(job, molds) for allowed_s, job, molds in self._wanted(now) if allowed_s <= now]

    def _wanted(self, now: int) -> list[tuple[int, Job, Moldability]]:
        """Return when each running job may be asked to shrink, if any job waits, or to expand, if none does.

        Jobs that are changing or have ended are left out. No job is asked in the second in which it began.
        """
        shrink, wanted = bool(self.queue), []
        if shrink or self.cluster.free > 0:
            rests_until_s = self._rests_until_s
            for until_s, order, job in self.cluster.ends:
                molds = job.molds
                if molds is None or not molds.malleable or job.target or until_s <= now:
                    continue
                sizes = molds.sizes
                if job.granted > sizes[0] if shrink else job.granted < sizes[-1]:
                    wanted.append((rests_until_s.get(order, job.start_s + 1), job, molds))
        return wanted

    def denies(self, job: Job, nodes: int, now: int) -> str:
        """Return why a job does not get the size now that it wants itself; "" if it does.

        It may always give nodes back. It gets more if no job waits, even shortly after a change.
        """
        if nodes > job.granted and self.queue:
            return "other jobs wait for nodes"
        if nodes - job.granted > self.cluster.free:
            return f"{self.cluster.free} nodes are free"
        if not self.cluster.can_resize(job, nodes, now):
            return "it is changing, or nodes are reserved"
        return ""

    def ask(self, job: Job, nodes: int, now: int) -> bool:
        """Ask a running job to change, and start its rest; return whether it was asked."""
        assert job.molds is not None
        asked = self.cluster.resize(job, nodes, now)
        if asked:
            rest_s = max(self.interval * job.molds.reconfiguration_s, 1)
            self._rests_until_s[job.order] = now + rest_s
        return asked
