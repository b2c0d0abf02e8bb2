"""Submission of jobs to a queue by their users: one, or many at once."""

from __future__ import annotations

from kalends.batch.machine_host import Machines
from kalends.batch.queue.queue import BatchQueue
from kalends.contract.job_calls import MadeJob, SubmitJobs, SubmittedJobs
from kalends.core.errors import InvalidInput, KalendsError
from kalends.core.jobs import JobRequest
from kalends.serving.auth.callers import Caller


def submit_job(
    machines: Machines, caller: Caller, queue: BatchQueue, job: JobRequest, key: str, now: int
) -> tuple[int, int]:
    """Take a job, or an array, in a step of `queue`; return the number of the first, and how many.

    A call that is repeated gives the same job. Raises what `BatchQueue.submit` does, and `NotAllowed`.
    """
    job.check_alone()
    machines.may_submit(caller.principal, job)
    known = queue.flow.table.submitted_before(caller.principal.user, key, job)
    if known is None:
        machines.check_submission(caller, job)
    pays = machines.reserve(caller.principal, queue, job) if known is None else None
    return queue.submit(caller.principal, job, key, now, pays)


async def submit_many(machines: Machines, caller: Caller, body: SubmitJobs) -> SubmittedJobs:
    """Take `body.jobs` until one is refused; answers once those that were taken are durable."""

    def step(queue: BatchQueue, now: int) -> SubmittedJobs:
        made: list[MadeJob] = []
        for place, job in enumerate(body.jobs, body.first):
            try:
                if job.machine != body.machine:
                    raise InvalidInput(
                        f"{job.machine or 'no machine'} is named, and the others are for {body.machine}",
                        where="machine",
                        remedy="submit the jobs of each machine in a call of their own",
                    )
                number, count = submit_job(machines, caller, queue, job, f"{body.key}.{place}", now)
            except KalendsError as error:
                return SubmittedJobs(made=tuple(made), refused=error.to_problem())
            made.append(MadeJob(machine=body.machine, job=number, count=count))
        return SubmittedJobs(made=tuple(made))

    return await machines.called(body.machine, step)
