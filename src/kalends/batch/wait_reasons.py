"""Reasons why a queued job waits: which jobs and reservations have the nodes that it needs."""

from __future__ import annotations

from functools import cached_property

from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue
from kalends.core.number_ranges import numbers_text
from kalends.scheduling.profile import Profile


class WaitReasons:
    """Answers for all jobs of `queue` as things stand at `now`; the plan of its nodes is made once."""

    def __init__(self, queue: BatchQueue, now: int) -> None:
        self._queue = queue
        self._now = max(now, queue.last_s)
        self._cluster = queue.flow.room.scheduler.cluster

    def of(self, job: BatchJob) -> str:
        """Return why this queued job does not run: the first reason that applies."""
        if job.request.at:
            return ""  # Its start is shown, and its nodes are booked for it.
        if job.reservation:
            return "it waits for nodes of its reservation"
        sizes = job.request.sizes or (job.request.nodes,)
        needed = min(self._queue.flow.room.granted(each, job.request.shape) for each in sizes)
        asked = f"it needs {needed} node{'' if needed == 1 else 's'}"
        in_service = self._queue.flow.room.nodes - self._cluster.out_of_service
        if needed > in_service:
            return f"{asked}, and {_are(in_service)} in service; {self._out}"
        free = max(self._plan.free[0], 0)
        if needed > free:
            return f"{asked}, and {_are(free)} free: {self._taken}"
        assert job.entry is not None, "a queued job is known to the policy"
        if not self._plan.fits(needed, self._now, self._now + job.entry.requested_s):
            return f"{asked} until its limit, but nodes are reserved before then"
        if self._cluster.counts:
            return "jobs ahead of it in the queue come first"
        return "no free nodes form the partition that it needs, or jobs ahead of it come first"

    @cached_property
    def _plan(self) -> Profile:
        return self._cluster.plan(self._now)

    @cached_property
    def _out(self) -> str:
        """Return which nodes are out of service, and why."""
        by_reason: dict[str, list[int]] = {}
        reasons = self._queue.flow.room.out_reasons
        for node in sorted(self._cluster.out_nodes):
            by_reason.setdefault(reasons.get(node, ""), []).append(node)
        told = [
            f"{'node' if len(nodes) == 1 else 'nodes'} {numbers_text(nodes)}"
            + (f" ({reason})" if reason else "")
            for reason, nodes in by_reason.items()
        ]
        return f"out of service: {', '.join(told)}"

    @cached_property
    def _taken(self) -> str:
        """Return what has the nodes that are not free."""
        running = sum(job.granted for _, _, job in self._cluster.ends)
        reserved = max(self._cluster.reservations.nodes_at(self._now), 0)
        told = [
            *([f"jobs run on {running}"] if running else []),
            *([f"{reserved} {'is' if reserved == 1 else 'are'} reserved"] if reserved else []),
            *([self._out] if self._cluster.out_of_service else []),
        ]
        return "; ".join(told) or "other users have them"


def _are(count: int) -> str:
    return f"{count} {'is' if count == 1 else 'are'}"
