"""A queue with a reservation, for tests of what becomes of both."""

from __future__ import annotations

from typing import Any

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Action, Occupied, Start
from kalends.batch.queue.queue import BatchQueue
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal

ANN, BOB = Principal("ann"), Principal("bob")
RESERVED = "0190a000-0000-7000-8000-000000000001"
DONE = f.JobEnding(kind="exit")


class Room:
    """A queue of four nodes, three of which Ann has reserved from 2,000 to 3,000."""

    def __init__(self, machine: str = "pool:4", **terms: Any) -> None:
        self.queue = BatchQueue("lab/box", f.Terms(machine=machine, **terms), 1_000)
        self.now = 1_000
        self.keys = 0
        self.stored: list[f.JournalEntry] = []
        self.occupied: list[Occupied] = []
        self.unplaced: list[int] = []
        self.slot = f.NodeClaim(7, 2_000, 3_000, 3, RESERVED, "ann")
        self.queue.claims_changed((), (self.slot,), self.now)
        self.settle()

    def submit(self, who: Principal = ANN, *, key: str = "", **fields: Any) -> int:
        self.keys += 1
        common = {"machine": "lab/box", "limit_s": 100, "command": ("true",)}
        job = JobRequest(**{**common, "reservation": RESERVED, **fields})
        return self.queue.submit(who, job, key or f"the-key-{self.keys}", self.now)[0]

    def settle(self) -> list[Action]:
        effects = self.queue.take_effects()
        self.stored += effects.entries
        self.occupied = effects.occupied
        self.unplaced += effects.unplaced
        return effects.actions

    def at(self, now: int) -> list[int]:
        """Let time pass to `now`; return the jobs that begin there."""
        while (due_s := self.queue.next_due_s()) is not None and due_s < now:
            self.queue.advance(max(due_s, self.now))
        self.now = now
        self.queue.advance(now)
        return self.starts()

    def starts(self) -> list[int]:
        starts = [each for each in self.settle() if isinstance(each, Start)]
        for each in starts:
            self.queue.begun(each.job.number, each.attempt, self.now)
        return [each.job.number for each in starts]

    def phase(self, number: int) -> str:
        return self.queue.job(number).phase

    def end(self, number: int, ending: f.JobEnding = DONE) -> None:
        self.queue.ended(number, self.queue.job(number).attempt, ending, self.now)

    def change(self, slot: f.NodeClaim) -> list[Action]:
        """The reservation has another slot; return what follows."""
        self.queue.claims_changed((self.slot.booking,), (slot,), self.now)
        self.slot = slot
        return self.settle()

    def cancel(self) -> list[Action]:
        self.queue.claims_changed((self.slot.booking,), (), self.now)
        return self.settle()

    def replayed(self) -> BatchQueue:
        return BatchQueue("lab/box", None, self.now, self.stored)
