"""Attempts that a queue does not know, because its store is an old copy or a new one.

What runs of them would have nodes that the queue gives to others. The number of a forgotten job must not be
given to a new one, nor that of a forgotten attempt to a new one of its job: it would be taken to have ended
as that one has. And a job that the copy knows as waiting may have run since.
"""

from __future__ import annotations

from typing import Final, NamedTuple

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
    why: str = "are missing in the store, because it is older than they are"

    @property
    def alarm(self) -> str:
        """Return the alarm for the operator; "" if none of them runs."""
        if not self.alive:
            return ""
        numbers = sorted({job_of(name) for name in self.alive})
        listed = ", ".join(map(str, numbers[:10])) + (" ..." if len(numbers) > 10 else "")
        return f"jobs ran that {self.why}: {listed}. They are being ended"

    def tell(self, queue: BatchQueue, now: int) -> None:
        """Tell the queue what it must not do again."""
        queue.attempts_seen(self.later, now)


GIVEN_UP: Final = "were given up with this host, before the machine came back to it"


def find_forgotten(launcher: Launcher, queue: BatchQueue, *, moved: bool = False) -> Forgotten:
    """Look for such attempts; raises `Unavailable` where the folder cannot be read.

    If the machine has `moved` here from another host, all that the folder has is of an earlier time.
    """
    jobs, first_free = queue.flow.table.jobs, queue.next_number
    alive: list[str] = []
    later: dict[int, SeenAttempts] = {}
    for name in launcher.attempts_from(1 if moved else min(jobs, default=first_free)):
        number, attempt = job_of(name), attempt_of(name)
        first_free = max(first_free, number + 1)
        known = number < queue.next_number
        known = known and (number not in jobs or attempt <= jobs[number].attempt)
        if known and not moved:
            continue
        state = launcher.look(name).state
        if state not in (State.ENDED, State.VOID):
            alive.append(name)
        if number in jobs and not known:
            begun = state not in (State.VOID, State.UNDECIDED)
            begun = begun or (number in later and later[number].begun)
            later[number] = SeenAttempts(number, attempt, begun)
    found = Forgotten(tuple(alive), first_free, tuple(later.values()))
    return found._replace(why=GIVEN_UP) if moved else found
