"""The rule that orders waiting jobs and starts them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from kalends.core.errors import InvalidInput
from kalends.machines.machine import Planned
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
        """Add a job that has waited before: held, altered, or under another policy; or that has been stopped.

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


def places_of(policy: Policy) -> Sequence[Planned]:
    """Return when the policy has planned which nodes for waiting jobs; () if it names none."""
    ask = getattr(policy, "places", None)
    return () if ask is None else tuple(ask())


def never_started(name: str, jobs: int, first: int) -> InvalidInput:
    """Return what is told of the policy `name`, under which so many jobs wait for ever."""
    return InvalidInput(
        f"{jobs} jobs were never started, the first is job {first}",
        where=f"policy {name}",
        remedy="a policy must start every job that fits on the empty cluster",
    )


def keeps_promises(policy: Policy, job: Job, until_s: int, now: int) -> bool:
    """Return whether the waiting jobs keep their promised starts if a running job ends by `until_s`.

    Policies that promise nothing have no method of this name.
    """
    ask = getattr(policy, "keeps_promises", None)
    return ask is None or bool(ask(job, until_s, now))
