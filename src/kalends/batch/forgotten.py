"""Attempts that a queue does not know, because its store is an old copy or a new one.

What runs of them would have nodes that the queue gives to others. The number of a forgotten job must not be
given to a new one, nor that of a forgotten attempt to a new one of its job: it would be taken to have ended
as that one has. And a job that the copy knows as waiting may have run since.
"""

from __future__ import annotations

from typing import NamedTuple

from kalends.batch.queue.facts import SeenAttempts
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.shepherds.conclusion import State
from kalends.batch.shepherds.folders import attempt_of, job_of
from kalends.batch.shepherds.launcher import Launcher


class Forgotten(NamedTuple):
    """The forgotten attempts that still run or may yet begin (`alive`), and the first unused job number."""

    alive: tuple[str, ...]
    first_free: int
    later: tuple[SeenAttempts, ...] = ()
    """For jobs that the store knows: the attempts made since the last one that it knows of."""

    @property
    def alarm(self) -> str:
        """Return the alarm for the operator; "" if none of them runs."""
        if not self.alive:
            return ""
        numbers = sorted({job_of(name) for name in self.alive})
        listed = ", ".join(map(str, numbers[:10])) + (" ..." if len(numbers) > 10 else "")
        return (
            f"jobs ran that are missing in the store, because it is older than they are: {listed}. "
            "They are being ended"
        )

    def tell(self, queue: BatchQueue, now: int) -> None:
        """Tell the queue what it must not do again."""
        queue.attempts_seen(self.later, now)


def find_forgotten(launcher: Launcher, queue: BatchQueue) -> Forgotten:
    """Look for such attempts; raises `Unavailable` where the folder cannot be read."""
    jobs, first_free = queue.flow.table.jobs, queue.next_number
    alive: list[str] = []
    later: dict[int, SeenAttempts] = {}
    for name in launcher.attempts_from(min(jobs, default=first_free)):
        number, attempt = job_of(name), attempt_of(name)
        first_free = max(first_free, number + 1)
        if number < queue.next_number and (number not in jobs or attempt <= jobs[number].attempt):
            continue
        state = launcher.look(name).state
        if state not in (State.ENDED, State.VOID):
            alive.append(name)
        if number in jobs:
            begun = state not in (State.VOID, State.UNDECIDED)
            begun = begun or (number in later and later[number].begun)
            later[number] = SeenAttempts(number, attempt, begun)
    return Forgotten(tuple(alive), first_free, tuple(later.values()))
