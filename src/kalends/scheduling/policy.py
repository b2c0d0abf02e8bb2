"""The rule that orders waiting jobs and starts them, and what else may be asked of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from kalends.core.errors import InvalidInput
from kalends.machines.partitions import Planned
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.profile import NEVER


class Policy(Protocol):
    """One policy over one cluster.

    The scheduler reports every submission, end and withdrawal, and after each of them calls `schedule`,
    which starts jobs with ``cluster.start(job, now)``. A policy reads no clock, draws no random numbers,
    and never sees the true run time of a job. Its plans no longer hold when `Cluster.revision` has changed.
    """

    cluster: Cluster
    wakes: bool
    """Whether `wake_at` ever returns a time, as long as no reservations arrive. Never changes."""

    def submitted(self, job: Job, now: int) -> None:
        """Add a job, which could run on the empty cluster, to the waiting jobs."""
        ...

    def ended(self, job: Job, now: int) -> None:
        """Note that a running job has ended; the cluster has been updated already."""
        ...

    def withdrawn(self, job: Job, now: int) -> None:
        """Remove a waiting job."""
        ...

    def returned(self, job: Job, now: int) -> None:
        """Add a job that has waited before: held, altered, or under another policy; or that has been stopped.

        Its place follows from `Job.order`. Several calls may come before `schedule`.
        """
        ...

    def schedule(self, now: int) -> None:
        """Start the jobs that may start now."""
        ...

    def waiting(self) -> Iterator[Job]:
        """Return the waiting jobs in order of submission, including preempted ones."""
        ...

    def wake_at(self, now: int) -> int | None:
        """Return when to call `schedule` without an event; None: never."""
        ...


def places_of(policy: Policy) -> Sequence[Planned]:
    """Return the times and nodes that the policy has planned for waiting jobs; () if it names no nodes."""
    ask = getattr(policy, "places", None)
    return () if ask is None else tuple(ask())


def never_started(name: str, jobs: int, first: int) -> InvalidInput:
    """Return the error about the policy `name`, under which this number of jobs waits for ever."""
    return InvalidInput(
        f"{jobs} jobs were never started, the first is job {first}",
        where=f"policy {name}",
        remedy="a policy must start every job that fits on the empty cluster",
    )


def promised_start(policy: Policy, job: Job) -> int:
    """Return the start that `policy` has promised `job`; 0 if none, or if the job does not wait."""
    promised = getattr(policy, "promised", None)
    if promised is None:
        return 0
    try:
        start_s: int = promised(job)
    except KeyError:
        return 0
    return start_s if start_s < NEVER else 0


def promised_starts(policy: Policy) -> list[tuple[Job, int]]:
    """Return the jobs that `policy` has promised a start, with the start, in the policy's order."""
    return [(job, start_s) for job in policy.waiting() if (start_s := promised_start(policy, job))]
