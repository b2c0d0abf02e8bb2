"""EASY's promise to the head of a queue on a machine with a topology: a time, and a place then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kalends.machines.machine import Machine
from kalends.scheduling.job import Job
from kalends.scheduling.promise import Promise

if TYPE_CHECKING:
    from kalends.scheduling.mapped import MappedCluster


class MappedPromise(Promise):
    """A promise of a place: jobs before the head end by then, or leave a place for it."""

    cluster: MappedCluster
    head: Job
    then: Machine
    """The machine at the shadow time, as the head will see it."""

    def allows(self, job: Job, now: int) -> bool:
        if now + job.requested_s <= self.shadow_s:
            return True
        partition = self.cluster.would_get(job, now)
        if partition is None:
            return False
        then = self.then.without([partition])
        return then.can_place(self.head.nodes, self.head.shape)

    def started(self, job: Job, now: int) -> None:
        self.leeway.take(job.granted, now)
        if now + job.requested_s > self.shadow_s:
            assert job.partition is not None
            self.then = self.then.without([job.partition])
