"""The promise to a waiting job, and the jobs that may go before it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kalends.scheduling.job import Job
from kalends.scheduling.leeway import Leeway, ShadowLeeway


class Promise(msgspec.Struct):
    """The latest start of a waiting job without delays, and the jobs that may go before it.

    The *shadow time* of EASY (Lifka 1995; Mu'alem and Feitelson 2001). `leeway` has the nodes that are free
    from now on and not needed for the promise: all of them until the shadow time, the *extra nodes* beyond
    it. Subclasses may allow less, never more.
    """

    shadow_s: int
    leeway: Leeway

    def allows(self, job: Job, now: int) -> bool:
        """Return whether the promise holds if `job` starts now."""
        return now + job.requested_s <= self.leeway.until(job.nodes)

    def started(self, job: Job, now: int) -> None:
        """Note that `job` was started now."""
        self.leeway.take(job.nodes, now + job.requested_s)


def promise_by_ends(
    nodes: int, free: int, ends: Iterable[tuple[int, int, Job]], now: int
) -> Promise:
    """Return the promise to a job of `nodes`, where `free` are, by the expected `ends`, sorted."""
    shadow_s, then = now, free
    for until_s, _, running in ends:
        if until_s > shadow_s:
            if then >= nodes:
                break
            shadow_s = until_s
        elif until_s <= now:
            free += running.granted
        then += running.granted
    return Promise(shadow_s, ShadowLeeway(free, shadow_s, then - nodes))
