"""Priorities, with or without ageing; scanning, strict, or preemptive."""

from __future__ import annotations

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.policies.ordered.ranked import Ranked
from kalends.scheduling.policies.ordered.scan import Scan


class MostUrgentFirst:
    """The highest priority first. With `age_s` above 0, a job rises one level for every `age_s` since
    its submission (ageing: Jones and Pang 2003, section 3.1.4).

    All rise alike, so that the order of two jobs never changes: a level is worth `age_s` of waiting.
    """

    age_s: int

    def rank(self, job: Job) -> int:
        return job.submit_s - job.priority * self.age_s if self.age_s else -job.priority


class Priority(MostUrgentFirst, Ranked):
    """Priority (section 4.8)."""

    def __init__(self, cluster: Cluster, age_s: int = 0) -> None:
        self.age_s = age_s
        super().__init__(cluster)


class PriorityScan(MostUrgentFirst, Scan):
    """Priority_SCAN (section 4.9)."""

    def __init__(self, cluster: Cluster, age_s: int = 0) -> None:
        self.age_s = age_s
        super().__init__(cluster)


class Preemptive(Priority):
    """Pre_Emptive (section 5.1, which gives only the name): `Priority`, and a first job that does not fit
    stops less urgent running jobs, if that makes room for it.

    A stopped job keeps its progress, waits again in its old place, and later runs for the rest of
    its time. The least urgent jobs are stopped first, the youngest among equals, as many as necessary;
    jobs that turn out unnecessary are spared. Only a strictly less urgent job is stopped, so two jobs
    never stop each other in turns. If jobs keep their nodes until they stand still, the first job waits
    for that: stopping jobs count as ended.
    """

    def schedule(self, now: int) -> None:
        line, cluster = self.line, self.cluster
        while (head := line.head()) is not None:
            if not cluster.start(head, now):
                stopped = self._stops_for(head, now)
                if not stopped:
                    return
                waits = [cluster.stop(job, now) for job in stopped]
                if not all(waits):
                    return
                for job in stopped:
                    line.add(job)
                started = cluster.start(head, now)
                assert started, f"there is room for job {head.id}"
            line.remove(head)

    def _stops_for(self, head: Job, now: int) -> list[Job]:
        """Return the running jobs that must stop so that `head` fits; none if it will, or cannot."""
        cluster, stopped = self.cluster, list[Job]()
        going = [job for _, _, job in cluster.ends if job.stopping]
        if going and cluster.fits_without(head, now, going):
            return []
        for candidate in self._less_urgent(head, now):
            stopped.append(candidate)
            if cluster.fits_without(head, now, [*going, *stopped]):
                break
        else:
            return []
        for candidate in stopped[-2::-1]:
            others = [each for each in stopped if each is not candidate]
            if cluster.fits_without(head, now, [*going, *others]):
                stopped = others
        return stopped

    def _less_urgent(self, head: Job, now: int) -> list[Job]:
        """Return the running jobs that may be stopped for `head`, in order, except jobs about to end."""
        rank = self.rank(head)
        running = [job for until_s, _, job in self.cluster.ends if until_s > now]
        less_urgent = [
            job for job in running if self.rank(job) > rank and self.cluster.can_stop(job)
        ]
        return sorted(less_urgent, key=self.key, reverse=True)
