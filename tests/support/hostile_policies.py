"""Users' policies, each wrong in its own way; loaded by name, as a user's are."""

from __future__ import annotations

from collections import deque
from typing import Any

from kalends.core.errors import Conflict
from kalends.scheduling import Cluster, Job, QueuePolicy
from kalends.scheduling.policies.ordered.fcfs import Fcfs


class NoCluster:
    """Cannot be made."""


class HalfAPolicy:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def submitted(self, job: Job, now: int) -> None:
        """Has nothing else."""


class WrongSignature(QueuePolicy):
    def schedule(self) -> None:  # type: ignore[override]  # what is wrong with it
        """Takes no time."""


class Raises(Fcfs):
    def ended(self, job: Job, now: int) -> None:
        raise ZeroDivisionError("a slip")


class RaisesOurs(QueuePolicy):
    def schedule(self, now: int) -> None:
        raise Conflict("mine", where="here")


class Leaves(Fcfs):
    def schedule(self, now: int) -> None:
        raise SystemExit(3)


class MakesThemNarrow(Fcfs):
    def schedule(self, now: int) -> None:
        for job in self.queue:
            job.nodes = 1
        super().schedule(now)


class ReadsRunTimes(Fcfs):
    """The shortest first by what it cannot know."""

    def schedule(self, now: int) -> None:
        self.queue = deque(sorted(self.queue, key=lambda job: job.run_s))  # type: ignore[attr-defined]
        super().schedule(now)


class ShortensThem(Fcfs):
    def submitted(self, job: Job, now: int) -> None:
        job.run_s = 1  # type: ignore[attr-defined]
        super().submitted(job, now)


class MovesTheirEnds(Fcfs):
    def schedule(self, now: int) -> None:
        super().schedule(now)
        for _, _, job in self.cluster.ends:
            job.until_s = now + 1


class TakesNodesAway(Fcfs):
    def schedule(self, now: int) -> None:
        super().schedule(now)
        self.cluster.drain([0])


class ClearsWhatRuns(Fcfs):
    """It clears its own list, and nothing else."""

    def schedule(self, now: int) -> None:
        self.cluster.ends.clear()
        self.cluster.touched.clear()
        self.cluster.free = 1000
        super().schedule(now)


class StartsTwice(QueuePolicy):
    def schedule(self, now: int) -> None:
        for job in self.queue:
            self.cluster.start(job, now)
            self.cluster.start(job, now)


class KeepsInLine(QueuePolicy):
    """Starts its first job again at the next pass, for it never takes it out."""

    def schedule(self, now: int) -> None:
        if self.queue:
            self.cluster.start(self.queue[0], now)


class StartsStrangers(QueuePolicy):
    def schedule(self, now: int) -> None:
        self.cluster.start(Job(id=99, submit_s=0, nodes=1, requested_s=1), now)


class StartsTheFinished(Fcfs):
    def ended(self, job: Job, now: int) -> None:
        self.cluster.start(job, now)


class StartsTomorrow(QueuePolicy):
    def schedule(self, now: int) -> None:
        for job in self.queue:
            self.cluster.start(job, now + 86_400)


class StopsTheWaiting(QueuePolicy):
    def schedule(self, now: int) -> None:
        for job in self.queue:
            self.cluster.stop(job, now)


class EndsThem(Fcfs):
    def schedule(self, now: int) -> None:
        super().schedule(now)
        for _, _, job in list(self.cluster.ends):
            self.cluster.end(job)


class NeverStarts(QueuePolicy):
    def schedule(self, now: int) -> None:
        """Nobody."""


class ForgetsWideOnes(Fcfs):
    """And does not know that it does."""

    def submitted(self, job: Job, now: int) -> None:
        if job.nodes < 4:
            self.queue.append(job)


class WakesNow(NeverStarts):
    def wake_at(self, now: int) -> int | None:
        return now


class WokeYesterday(NeverStarts):
    def wake_at(self, now: int) -> int | None:
        return now - 1


class WakesInWords(NeverStarts):
    def wake_at(self, now: int) -> Any:
        return "tomorrow"


class WakesForEver(NeverStarts):
    def wake_at(self, now: int) -> int | None:
        return now + 1


class AtFullHours(QueuePolicy):
    """Nothing is wrong with this one: it says itself when it wants to look, and not `wakes`."""

    def schedule(self, now: int) -> None:
        while now % 3600 == 0 and self.queue and self.cluster.start(self.queue[0], now):
            self.queue.popleft()

    def wake_at(self, now: int) -> int | None:
        return now - now % 3600 + 3600 if self.queue else None
