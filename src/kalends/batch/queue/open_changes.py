"""Changes of size that programs were asked for and have not answered: asked again, and taken back in time."""

from __future__ import annotations

from dataclasses import dataclass

from kalends.batch.queue.effects import Resize, Withdraw
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.job_table import JobTable
from kalends.batch.queue.machine_room import MachineRoom


@dataclass(frozen=True, slots=True)
class OpenChanges:
    """Open changes of the sizes of jobs that have nodes."""

    table: JobTable
    room: MachineRoom

    def jobs(self) -> list[BatchJob]:
        """Return the jobs whose programs were asked to change, and have not answered."""
        asked = (self.table.jobs[entry.id] for entry in self.room.changing())
        return [job for job in asked if job.phase == "changing"]

    def due_s(self, change_s: int) -> int | None:
        """Return when the first is to be taken back, `change_s` after it was asked; None: none is."""
        asked = [_asked_s(job) for job in self.jobs() if not job.withdrawn]
        return min(asked) + change_s if asked else None

    def withdraw(self, change_s: int, now: int) -> list[Withdraw]:
        """Withdraw changes that have been open for too long."""
        due = [job for job in self.jobs() if not job.withdrawn and _asked_s(job) + change_s <= now]
        for job in due:
            job.withdrawn = True
        return [self._withdrawal(job) for job in due]

    def told(self, job: BatchJob) -> Resize | Withdraw:
        """Return the last order to the shepherd of a changing job, to send it again."""
        if job.withdrawn:
            return self._withdrawal(job)
        assert job.entry is not None
        nodes = self.room.nodes_of(job.entry)[: job.entry.target]
        return Resize(job, job.attempt, job.change, nodes)

    def _withdrawal(self, job: BatchJob) -> Withdraw:
        assert job.entry is not None
        return Withdraw(job, job.attempt, job.change, self.room.nodes_before(job.entry))


def _asked_s(job: BatchJob) -> int:
    assert job.entry is not None
    assert job.entry.before is not None
    return job.entry.before.asked_s
