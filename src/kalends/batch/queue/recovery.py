"""Effects that a queue repeats after a restart: those that may be missing, and do no harm twice."""

from __future__ import annotations

from kalends.batch.queue.effects import Continue, Kill, LookUp, Relimit, StandStill
from kalends.batch.queue.flow import JobFlow
from kalends.batch.queue.job import BatchJob


def recover(flow: JobFlow) -> None:
    """Look up what may have been begun, ask again what was not answered, and show the calendar what runs."""
    for job in flow.table:
        if job.on_nodes or job.request.at:
            flow.effects.occupied.append(flow.occupied(job))
        if job.under_way:
            flow.effects.actions.append(LookUp(job, job.attempt))
            _tell_again(flow, job)


def _tell_again(flow: JobFlow, job: BatchJob) -> None:
    actions = flow.effects.actions
    if job.phase == "ending":
        actions.append(Kill(job, job.attempt, job.kill_detail))
    elif job.phase == "stopping":
        actions.append(StandStill(job, job.attempt, job.stops))
    elif job.stops and job.on_nodes:
        actions.append(Continue(job, job.attempt, job.stops, job.nodes))
    if job.phase == "changing":
        actions.append(flow.open_changes.told(job))
    if job.change or job.reservation:
        actions.append(Relimit(job, job.attempt, job.limit_s))
