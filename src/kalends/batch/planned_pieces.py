"""Nodes of a machine that are kept for waiting jobs, by its owner's `Terms.may_delay`.

all
    No nodes: a reservation may delay anybody.
waiting-room
    Those of jobs to which the policy has promised a start: the verified schedule of Gehring and Ramme
    1996 (section 4), and the starts of conservative backfilling.
none
    Those of all who wait, by their latest starts as they were last foreseen.
"""

from __future__ import annotations

from collections.abc import Mapping

from kalends.batch.queue.queue import BatchQueue
from kalends.calendars.profiles import total
from kalends.scheduling.job import Job
from kalends.scheduling.policy import promised_starts


def planned_pieces(
    queue: BatchQueue, foreseen: Mapping[int, int]
) -> tuple[tuple[int, int, int], ...]:
    """Return when so many nodes are kept (start, end, nodes), in order; `foreseen` are starts by job."""
    room, may_delay = queue.flow.room, queue.flow.terms.may_delay
    if may_delay == "all":
        return ()
    planned = dict(promised_starts(room.scheduler.policy))
    if may_delay == "none":
        for job in room.scheduler.policy.waiting():
            if job not in planned and job.id in foreseen:
                planned[job] = foreseen[job.id]
    spans = [_span(queue, job, max(start_s, queue.last_s)) for job, start_s in planned.items()]
    if not spans:
        return ()
    end = max(finish for _, finish, _ in spans)
    steps = total(spans, min(start for start, _, _ in spans), end)
    return tuple(step for step in steps if step[2])


def _span(queue: BatchQueue, job: Job, start_s: int) -> tuple[int, int, int]:
    return start_s, start_s + job.requested_s, queue.flow.room.scheduler.cluster.width(job)
