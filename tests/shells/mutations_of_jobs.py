"""Machines gone wrong, one line at a time: what the stories with jobs must notice."""

from __future__ import annotations

from typing import Any

from kalends.batch.hosts import machine_hosts
from kalends.batch.queue import facts as f
from kalends.batch.queue import flow
from kalends.batch.queue.effects import Kill
from kalends.batch.queue.flow import JobFlow
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.runner import ShepherdRunner
from kalends.batch.service import QueueService
from kalends.resource_servers.jobs.job_ledger import JobLedger
from kalends.resource_servers.jobs.machines import SiteMachines
from tests.shells.mutations import mutation


@mutation
def no_job_ever_starts() -> None:
    """Each ends in the moment in which it was to start, as one that its site cannot start."""

    async def start(self: ShepherdRunner, starts: Any) -> None:
        for each in starts:
            self._end(each, f.JobEnding(kind="not-started"))

    ShepherdRunner._start = start  # type: ignore[method-assign]


@mutation
def jobs_start_before_they_are_stored() -> None:
    """What a queue has decided is done at once."""
    store = JobLedger.store_jobs

    def too_early(self: JobLedger, operations: Any, durable: Any, charged: Any = ()) -> None:
        durable()
        store(self, operations, lambda: None, charged)

    JobLedger.store_jobs = too_early  # type: ignore[method-assign]


@mutation
def jobs_are_answered_before_they_are_stored() -> None:
    """A submission is told as taken when it is in memory."""

    async def at_once(self: SiteMachines, machine: str, step: Any) -> Any:
        assert self.hooks.service is not None
        return self.hooks.service.step(machine, step)

    SiteMachines.called = at_once  # type: ignore[method-assign]


@mutation
def kills_are_forgotten_at_a_restart() -> None:
    """What was told to end is not told again."""
    recover = BatchQueue.recover

    def forget(self: BatchQueue) -> None:
        recover(self)
        effects = self.flow.effects
        effects.actions = [each for each in effects.actions if not isinstance(each, Kill)]

    BatchQueue.recover = forget  # type: ignore[method-assign]


@mutation
def nodes_are_free_when_a_job_is_told_to_end() -> None:
    """Nobody waits until all of it is gone."""
    cancel = BatchQueue.cancel

    def impatient(self: BatchQueue, number: int, detail: str, now: int) -> None:
        cancel(self, number, detail, now)
        job = self.flow.table.jobs.get(number)
        if job is not None and job.phase == "ending":
            self.ended(number, job.attempt, f.JobEnding(kind="killed", status=-9), now)

    BatchQueue.cancel = impatient  # type: ignore[method-assign]


@mutation
def what_ran_before_a_restart_is_taken_for_gone() -> None:
    """Nobody looks what has become of the attempts of an earlier life."""
    recover = BatchQueue.recover

    def forget(self: BatchQueue) -> None:
        for job in list(self.flow.table):
            if job.on_nodes:
                self.ended(job.number, job.attempt, f.JobEnding(kind="lost"), self.last_s)
        recover(self)

    BatchQueue.recover = forget  # type: ignore[method-assign]


@mutation
def a_removed_record_is_not_missed() -> None:
    """A job that has begun, and whose record is gone, is believed to run."""

    def void(self: BatchQueue, number: int, attempt: int, now: int) -> None:
        job = self._at(number, attempt)
        if job is not None and job.begun_attempt != attempt:
            self._record(f.AttemptVoid(number, attempt), now)

    BatchQueue.void = void  # type: ignore[method-assign]


@mutation
def queues_hear_of_no_reservations() -> None:
    """The calendar and the queue each give the same nodes away."""
    QueueService._claims_moved = lambda self, machine, bookings, again=(): None  # type: ignore[method-assign]


@mutation
def charges_go_by_the_clock_of_the_site_alone() -> None:
    """Of a job whose end it has heard late it does not believe how long it ran."""
    BatchJob.count_by = lambda self, ran_s: None  # type: ignore[method-assign]


@mutation
def what_was_lost_is_charged() -> None:
    """Whoever is to blame for its end."""
    flow.UNCHARGED = frozenset()  # type: ignore[misc]


@mutation
def whatever_was_lost_runs_again() -> None:
    """Also what may not run twice."""

    def always(self: JobFlow, job: Any) -> bool:
        return job.ending.kind in ("lost", "node-failed")

    JobFlow._runs_again = always  # type: ignore[method-assign]


@mutation
def what_began_since_the_copy_is_overlooked() -> None:
    """A store that was put back believes that jobs wait which have run."""
    BatchQueue.attempts_seen = lambda self, seen, now: None  # type: ignore[method-assign]


@mutation
def jobs_are_adopted_by_another_host() -> None:
    """A site takes the machines of its store for its own, wherever it runs."""
    machine_hosts.put_aside = lambda stored, own, here: {}  # type: ignore[assignment]


@mutation
def nobody_waits_for_the_forgotten_to_end() -> None:
    """A site whose store was put back gives nodes away on which something runs that it does not know."""
    end = ShepherdRunner.end_forgotten

    async def at_once(self: ShepherdRunner, names: Any, within_s: float) -> None:
        await end(self, names, 0.0)

    ShepherdRunner.end_forgotten = at_once  # type: ignore[method-assign]
