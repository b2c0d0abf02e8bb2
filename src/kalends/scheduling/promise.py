"""What is promised to a job that waits, and which others may go before it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kalends.scheduling.job import Job
from kalends.scheduling.profile import Profile


class Promise(msgspec.Struct):
    """The latest start of a waiting job without delays, and the jobs that may go before it.

    The *shadow time* and the *extra nodes* of EASY (Lifka 1995; Mu'alem and Feitelson 2001). Subclasses
    may allow less: never a job that lasts beyond `shadow_s` and takes more than `extra` nodes.
    """

    shadow_s: int
    extra: int

    def allows(self, job: Job, now: int) -> bool:
        """Return whether `job`, started now, leaves the promise standing."""
        return now + job.requested_s <= self.shadow_s or job.nodes <= self.extra

    def started(self, job: Job, now: int) -> None:
        """Take note that `job` was started now."""
        if now + job.requested_s > self.shadow_s:
            self.extra -= job.nodes


class ReservedPromise(Promise):
    """A promise among advance reservations: jobs before it must leave room for it in the whole plan."""

    plan: Profile

    def allows(self, job: Job, now: int) -> bool:
        return self.plan.fits(job.nodes, now, now + job.requested_s)

    def started(self, job: Job, now: int) -> None:
        self.plan.take(job.nodes, now, now + job.requested_s)


def promise_by_ends(
    nodes: int, free: int, ends: Iterable[tuple[int, int, Job]], now: int
) -> Promise:
    """Return the promise to a job of `nodes`, where `free` are, and others by the expected `ends`, sorted."""
    shadow_s, later = now, iter(ends)
    if free < nodes:
        for until_s, _, running in later:
            free += running.granted
            if free >= nodes:
                shadow_s = max(until_s, now)
                break
    for until_s, _, running in later:
        if until_s > shadow_s:
            break
        free += running.granted
    return Promise(shadow_s, free - nodes)
