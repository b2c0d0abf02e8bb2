"""Attempts of jobs that a queue does not know: its store is an old copy, or was begun anew.

What runs of them would have nodes that the queue gives to others. And the number of a forgotten job must
not be given to a new one, which would be taken to have ended as that one has.
"""

from __future__ import annotations

from typing import NamedTuple

from kalends.batch.queue.queue import BatchQueue
from kalends.batch.shepherds.conclusion import State
from kalends.batch.shepherds.folders import job_of
from kalends.batch.shepherds.launcher import Launcher


class Forgotten(NamedTuple):
    """Those that run, or may begin yet; `first_free` is the first number above all that there ever were."""

    alive: tuple[str, ...]
    first_free: int

    @property
    def alarm(self) -> str:
        """What the operator is told; "" if nothing of them runs."""
        if not self.alive:
            return ""
        numbers = sorted({job_of(name) for name in self.alive})
        listed = ", ".join(map(str, numbers[:10])) + (" ..." if len(numbers) > 10 else "")
        return (
            f"jobs ran that the store does not know, which is older than they are: {listed}. "
            "They are ended"
        )


def find_forgotten(launcher: Launcher, queue: BatchQueue) -> Forgotten:
    """Look for such attempts; raises `Unavailable` where the folder cannot be read."""
    names = launcher.attempts_from(queue.next_number)
    over = (State.ENDED, State.VOID)
    alive = tuple(name for name in names if launcher.look(name).state not in over)
    return Forgotten(alive, max([queue.next_number, *(job_of(name) + 1 for name in names)]))
