"""The rule that orders waiting jobs and starts them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job


class Policy(Protocol):
    """One policy over one cluster.

    The scheduler tells it of every submission, end and withdrawal, and after each of them calls
    `schedule`, which starts what may start now by ``cluster.start(job, now)``. A policy reads no clock,
    draws no random numbers, and never sees how long a job will really run. What it has planned is void
    when `Cluster.revision` has changed.
    """

    cluster: Cluster
    wakes: bool
    """Whether `wake_at` ever names a time, as long as no reservations arrive. Fixed from the beginning."""

    def submitted(self, job: Job, now: int) -> None:
        """Add a job, which could run on the empty cluster, to the waiting jobs."""
        ...

    def ended(self, job: Job, now: int) -> None:
        """Note that a running job has ended, as the cluster knows already."""
        ...

    def withdrawn(self, job: Job, now: int) -> None:
        """Remove a waiting job."""
        ...

    def returned(self, job: Job, now: int) -> None:
        """Add a job that has waited before: held, altered, or under another policy.

        Its place is by `Job.order`. It may be called for several jobs before `schedule` is.
        """
        ...

    def schedule(self, now: int) -> None:
        """Start what may start now."""
        ...

    def waiting(self) -> Iterator[Job]:
        """Return the jobs that wait, in the order in which they were submitted (preempted ones too)."""
        ...

    def wake_at(self, now: int) -> int | None:
        """Return when to call `schedule` without an event; None: never."""
        ...


def keeps_promises(policy: Policy, job: Job, until_s: int, now: int) -> bool:
    """Return whether the waiting jobs keep their promised starts if a running job ends by `until_s`.

    Policies that promise nothing have no method of this name.
    """
    ask = getattr(policy, "keeps_promises", None)
    return ask is None or bool(ask(job, until_s, now))
