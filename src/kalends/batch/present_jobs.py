"""The jobs of a queue that are not over, in the order in which they are listed."""

from __future__ import annotations

from collections.abc import Mapping

from kalends.batch.job_rights import owns, sees_all
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.views import runs, view_of
from kalends.batch.wait_reasons import WaitReasons
from kalends.contract import job_calls as c
from kalends.serving.auth.callers import Caller


def present(
    caller: Caller,
    queue: BatchQueue,
    state: str,
    predictions: Mapping[int, c.PredictedStart],
    now: int,
    *,
    everyone: bool,
) -> list[c.JobView]:
    """Return running jobs by their ends, then those that wait in the order of the queue.

    What is only offered to a job stands in the queue of everyone, and is none of the caller's own yet.
    """
    jobs = [
        job
        for job in queue.flow.table
        if (everyone or (owns(caller, job) and not job.offered))
        and (not state or (state == "running") == (job.on_nodes and runs(queue, job)))
    ]
    running = [job for job in jobs if job.on_nodes and runs(queue, job)]
    waiting = [job for job in jobs if not (job.on_nodes and runs(queue, job))]
    why = WaitReasons(queue, now)
    return [
        view_of(queue, job, predictions, now, whole=sees_all(caller, job.principal.user), why=why)
        for job in (*running, *waiting)
    ]
