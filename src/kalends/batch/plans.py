"""The schedule of a queue as its users see it: running, planned, reserved and free nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue
from kalends.contract.job_calls import (
    MachineLoad,
    MachinePlan,
    NodeGap,
    PredictedStart,
    ReservedNodes,
    ScheduledJob,
)
from kalends.core.limits import LISTING_MAX
from kalends.scheduling.profile import Profile


def plan_of(
    queue: BatchQueue,
    load: MachineLoad,
    now: int,
    predictions: Mapping[int, PredictedStart],
    made_at: int,
    reservations: Sequence[ReservedNodes],
    own: Iterable[int],
) -> MachinePlan:
    """Return the schedule at `now`; the jobs in `own` with what only their user and operators may see."""
    whole = set(own)
    present = list(queue.flow.table)
    running = [_running(job, job.number in whole) for job in present if job.on_nodes]
    waiting = [
        _waiting(queue, job, predictions[job.number], now, job.number in whole)
        for job in present
        if job.phase in ("queued", "stopped") and job.number in predictions
    ]
    waiting.sort(key=lambda job: (job.start, job.job))
    jobs = (*running, *waiting)
    ending_s = queue.flow.terms.ending_s
    planned = [(job.start, job.end + ending_s, job.nodes) for job in waiting]
    return MachinePlan(
        machine=load,
        now=now,
        made_at=made_at,
        jobs=jobs[:LISTING_MAX],
        reservations=tuple(reservations),
        free=_steps(queue.flow.room.scheduler.cluster.plan(now, planned)),
        more=len(jobs) > LISTING_MAX,
        unplanned=len(present) - len(jobs) - sum(map(_has_nodes_elsewhere, present)),
    )


def gaps_within(
    gaps: Iterable[NodeGap], now: int, nodes_max: int, longest_s: int, node_seconds_max: int
) -> tuple[NodeGap, ...]:
    """Return what limits leave of `gaps`, the widest first; 0: no limit, below 0: nothing."""
    found: list[NodeGap] = []
    for gap in gaps:
        nodes = min(gap.nodes, nodes_max) if nodes_max else gap.nodes
        ends = [gap.until] if gap.until else []
        ends += [now + longest_s] if longest_s else []
        ends += [now + node_seconds_max // nodes] if node_seconds_max and nodes > 0 else []
        until = min(ends, default=0)
        if nodes < 1 or (ends and until <= now):
            continue
        if found and found[-1].nodes == nodes:
            found.pop()
        found.append(NodeGap(nodes=nodes, until=until))
    return tuple(found)


def _has_nodes_elsewhere(job: BatchJob) -> bool:
    """Return whether a job waits for nodes that are booked for it, or are its reservation's."""
    return not job.on_nodes and bool(job.request.at or job.reservation)


def _running(job: BatchJob, whole: bool) -> ScheduledJob:
    assert job.entry is not None
    return ScheduledJob(
        job=job.number, user=job.principal.user, phase=job.phase,
        nodes=max(len(job.nodes), job.entry.granted), start=job.started_s,
        end=job.entry.until_s - job.entry.ending_s,
        name=job.request.name if whole else "", node_numbers=job.nodes,
    )  # fmt: skip


def _waiting(
    queue: BatchQueue, job: BatchJob, predicted: PredictedStart, now: int, whole: bool
) -> ScheduledJob:
    assert job.entry is not None
    start = max(predicted.latest, now)
    return ScheduledJob(
        job=job.number, user=job.principal.user, phase=job.phase,
        nodes=queue.flow.room.scheduler.cluster.width(job.entry), start=start,
        end=start + job.entry.requested_s - job.entry.ending_s,
        expected=predicted.not_before(now).expected,
        name=job.request.name if whole else "",
    )  # fmt: skip


def _steps(profile: Profile) -> tuple[tuple[int, int], ...]:
    """Return the free nodes from each time on; what was foreseen a while ago may want more than there are."""
    steps: list[tuple[int, int]] = []
    for time_s, free in zip(profile.times, profile.free, strict=True):
        if not steps or steps[-1][1] != max(free, 0):
            steps.append((time_s, max(free, 0)))
    return tuple(steps)
