"""Policies of an owner's own for live queues: right and capricious ones, and some that err after a while."""

from __future__ import annotations

import random
from itertools import repeat

from kalends.scheduling import Cluster, Job, QueuePolicy

CHANCE = random.Random()
"""Shared by all of them, so that one that is made anew does not decide as the former did."""


class Capricious(QueuePolicy):
    """Starts whatever fits, in an order that nobody could tell."""

    def schedule(self, now: int) -> None:
        for job in CHANCE.sample(list(self.queue), len(self.queue)):
            if self.cluster.start(job, now):
                self.queue.remove(job)


class StopsAtWill(Capricious):
    """Stops some of those that run, whoever waits."""

    def schedule(self, now: int) -> None:
        super().schedule(now)
        for _, _, job in self.cluster.ends:
            if CHANCE.randrange(6) == 0 and self.cluster.can_stop(job):
                assert not self.cluster.stop(job, now), "it has its nodes until it stands still"


class ErrsInTheMiddle(Capricious):
    """Raises once in a while, after it has started something."""

    def schedule(self, now: int) -> None:
        super().schedule(now)
        if CHANCE.randrange(6) == 0:
            raise ZeroDivisionError("a slip")


class ErrsWhenTold(Capricious):
    """Raises when it is told of an end, of so many as its owner wants."""

    def __init__(self, cluster: Cluster, ends: int = 1, *, said: str = "an end") -> None:
        super().__init__(cluster)
        self.left, self.said = ends, said

    def ended(self, job: Job, now: int) -> None:
        self.left -= 1
        if self.left <= 0:
            raise KeyError(f"{self.said} too many")


class ErrsWhenAsked(Capricious):
    """Wants to be woken at times that are none."""

    def wake_at(self, now: int) -> int | None:
        return None if CHANCE.randrange(4) else now - 1


class StartsOutOfTurn(Capricious):
    """Starts jobs when it is only asked when to look."""

    def schedule(self, now: int) -> None:
        """Start nothing."""

    def wake_at(self, now: int) -> int | None:
        for job in list(self.queue):
            if self.cluster.start(job, now):
                self.queue.remove(job)
        return None


class NeverBegins(QueuePolicy):
    """Cannot be made."""

    def __init__(self, cluster: Cluster) -> None:
        raise RuntimeError("no licence")


class StartsOnReturn(Capricious):
    """Knows no `returned`: it is told of jobs as of new ones, and starts them at once."""

    returned = None  # type: ignore[assignment]

    def submitted(self, job: Job, now: int) -> None:
        if not self.cluster.start(job, now):
            super().submitted(job, now)


class Endless(QueuePolicy):
    """Starts the first job, and never comes back."""

    def schedule(self, now: int) -> None:
        while True:
            for job in list(self.queue):
                if self.cluster.start(job, now):
                    self.queue.remove(job)


class SwallowsErrors(QueuePolicy):
    """Never comes back, and takes what is raised for its own errors."""

    def schedule(self, now: int) -> None:
        while self.queue:
            try:
                self.cluster.can_start(self.queue[0], now)
            except Exception:
                continue


class Unstoppable(QueuePolicy):
    """Where a job waits, it never comes back, whatever is raised; it says how often."""

    def schedule(self, now: int) -> None:
        try:
            if self.queue:
                print("again", flush=True)
            while self.queue:
                pass
        finally:
            if self.queue:
                self.schedule(now)


class StuckInC(QueuePolicy):
    """Where a job waits, it never comes back from a call in C."""

    def schedule(self, now: int) -> None:
        if self.queue:
            sum(repeat(1))


class Idle(QueuePolicy):
    """Starts nothing, and never wants to."""

    def schedule(self, now: int) -> None:
        """Start nothing."""


class ChangesLimits(Capricious):
    """Changes what it only sees."""

    def schedule(self, now: int) -> None:
        for job in self.queue:
            job.requested_s = 1
            job.until_s = 1


class NeverMade(QueuePolicy):
    """Is never there."""

    def __init__(self, cluster: Cluster) -> None:
        while True:
            pass


class LoopsWhenRead(Capricious):
    """Never says whether it chooses sizes."""

    @property
    def chooses_sizes(self) -> bool:
        while True:
            pass


class StartsAndTakesBack(QueuePolicy):
    """Starts the first job and takes that back, for ever."""

    def schedule(self, now: int) -> None:
        while True:
            if self.queue and self.cluster.start(self.queue[0], now):
                self.cluster.undo(self.queue[0])


RIGHT = ("Capricious", "StartsOnReturn", "StopsAtWill")
WRONG = ("ErrsInTheMiddle", "ErrsWhenTold", "ErrsWhenAsked", "StartsOutOfTurn", "NeverBegins")
