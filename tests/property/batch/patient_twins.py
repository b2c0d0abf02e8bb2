"""Who could be queued, and who can never begin any more: found by looking at everybody, however slow."""

from __future__ import annotations

from math import inf

from kalends.batch.queue.flow import JobFlow
from kalends.batch.queue.job import BatchJob


def first_free(flow: JobFlow, now: int) -> BatchJob | None:
    """The twin of `JobAccounts.first_free`: nobody overtakes their own, but those that wait for a period."""
    groups: dict[tuple[str, str], list[BatchJob]] = {}
    for job in flow.table:
        if "limit" in job.reasons:
            groups.setdefault((job.principal.user, job.request.project), []).append(job)
    return min(
        (job for group in groups.values() if (job := _first_of(flow, group, now))),
        key=lambda job: job.number,
        default=None,
    )


def _first_of(flow: JobFlow, group: list[BatchJob], now: int) -> BatchJob | None:
    too_much: float = inf
    for job in sorted(group, key=lambda job: job.number):
        sizes = job.request.sizes or (job.request.nodes,)
        most = max(nodes * job.request.limit_on(nodes) for nodes in sizes)
        if most >= too_much:
            continue
        reached = flow.accounts.reached_limit(job.principal.user, job.request, now)
        if reached is None:
            return job
        if not reached.lasts:
            return None
        too_much = most
    return None


def hopeless(flow: JobFlow, now: int) -> list[int]:
    """The twin of `ReservedJobs.hopeless`: jobs that wait for reservations without a slot for them."""
    return [
        job.number
        for job in flow.table
        if job.reservation and not job.on_nodes and not _has_hope(flow, job, now)
    ]


def _has_hope(flow: JobFlow, job: BatchJob, now: int) -> bool:
    length_s, request = job.request.limit_on(job.request.nodes), job.request
    least_s = 1 if request.at or not length_s else max(length_s - 60, 1)
    if request.warning and not length_s and not request.at:
        least_s = request.warning.before_s + 1
    return any(
        slot.reservation == job.reservation
        and slot.user == job.principal.user
        and request.nodes <= slot.nodes
        and slot.end - max(slot.start, now) >= least_s
        for slot in flow.reserved.slots.values()
    )
