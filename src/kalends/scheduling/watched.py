"""A user's own policy, watched: what it may not do is an error that names it and the job.

Nothing here stands in the way of the policies that come with kalends. It is no sandbox either: the class
is trusted as any Python that one runs, only not believed to be right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

from kalends.core.errors import InvalidInput, KalendsError
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job

METHODS: Final = ("submitted", "ended", "withdrawn", "schedule", "waiting", "wake_at")

IDLE_WAKES_MAX: Final = 10_000
"""Maximum number of successive wakes that a policy may ask for and start nothing."""


_Wanted = tuple[object, ...]


def _wanted(job: Job) -> _Wanted:
    """Return what a policy may not change. A job with several sizes gets its nodes from the policy."""
    if job.molds is not None:
        return (job.molds, job.submit_s)
    return (job.nodes, job.requested_s, job.submit_s, job.shape, job.components)


class WatchedPolicy:
    """A `Policy` that passes everything on to an object of the class `make`, called with the cluster.

    Raises `InvalidInput` for a class that cannot be called so, lacks a method, raises, starts a job that
    does not wait, or at another time than now, changes what a job asks for, stops one that does not run,
    or wants to be woken in the past, or again and again for nothing. What it had started before stands;
    the scheduler must not be used any more.
    """

    def __init__(self, make: Callable[..., Any], cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.wakes = True
        """True, because a user's class is asked each time."""
        self._waiting: dict[int, Job] = {}
        """Jobs by order of submission."""
        self._wanted: dict[int, _Wanted] = {}
        """The requests of each of them."""
        self._idle_wakes = 0
        self._proxy = _WatchedCluster(cluster, self)
        self._own = self._asked(make, self._proxy)
        self.chooses_sizes = bool(getattr(self._own, "chooses_sizes", False))
        for method in METHODS:
            if not callable(getattr(self._own, method, None)):
                self.refuse(f"has no method {method}")

    def submitted(self, job: Job, now: int) -> None:
        self._enters(job)
        self._told(self._own.submitted, job, now)

    def ended(self, job: Job, now: int) -> None:
        self._told(self._own.ended, job, now)

    def withdrawn(self, job: Job, now: int) -> None:
        self._leaves(job)
        self._told(self._own.withdrawn, job, now)

    def returned(self, job: Job, now: int) -> None:
        """Give back a job that has waited before; a class without this method is told as of a new one."""
        self._enters(job)
        own = getattr(self._own, "returned", None)
        if own is not None:
            self._told(own, job, now)
            return
        self._told(self._own.submitted, job, now)
        self.schedule(now)

    def schedule(self, now: int) -> None:
        self._proxy.now = now
        self._asked(self._own.schedule, now)
        self._idle_wakes = 0 if self.cluster.touched else self._idle_wakes + 1

    def waiting(self) -> Iterator[Job]:
        return iter([self._waiting[order] for order in sorted(self._waiting)])

    def wake_at(self, now: int) -> int | None:
        wake_s = self._asked(self._own.wake_at, now)
        if wake_s is None:
            return None
        if not isinstance(wake_s, int) or wake_s < now:
            self.refuse(f"wants to be woken at {wake_s!r:.40}, and it is {now} now")
        if self._idle_wakes > IDLE_WAKES_MAX:
            self.refuse(f"was woken {IDLE_WAKES_MAX:,} times in a row and started nothing")
        return wake_s

    def start(self, job: Job, now: int) -> bool:
        """Start a job for the policy, if it may be started and fits."""
        if self._waiting.get(job.order) is not job:
            self.refuse(f"starts job {job.id}, which does not wait")
        if now != self._proxy.now:
            self.refuse(f"starts job {job.id} at {now}, and it is {self._proxy.now} now")
        if _wanted(job) != self._wanted[job.order]:
            self.refuse(f"changes what job {job.id} asks for")
        if not self.cluster.start(job, now):
            return False
        self._leaves(job)
        return True

    def stop(self, job: Job, now: int) -> None:
        """Stop a job for the policy, if it runs."""
        if not any(running is job for _, _, running in self.cluster.ends):
            self.refuse(f"stops job {job.id}, which does not run")
        if now != self._proxy.now:
            self.refuse(f"stops job {job.id} at {now}, and it is {self._proxy.now} now")
        self.cluster.stop(job, now)
        self._enters(job)

    def undo(self, job: Job) -> None:
        """Take back the start of a job for the policy."""
        self.cluster.undo(job)
        self._enters(job)

    def refuse(self, detail: str) -> NoReturn:
        """Raise `InvalidInput`: the policy is wrong."""
        raise InvalidInput(detail, where=f"policy {self.name}", remedy="follow docs/policies.md")

    def _enters(self, job: Job) -> None:
        self._waiting[job.order] = job
        self._wanted[job.order] = _wanted(job)

    def _leaves(self, job: Job) -> None:
        del self._waiting[job.order], self._wanted[job.order]

    def _told(self, method: Callable[..., object], job: Job, now: int) -> None:
        self._idle_wakes = 0
        self._proxy.now = now
        self._asked(method, job, now)

    def _asked(self, call: Callable[..., Any], *arguments: object) -> Any:
        try:
            return call(*arguments)
        except KalendsError:
            raise
        except (
            Exception,
            SystemExit,
        ) as error:  # Whatever a user's class raises is its own fault, and told so.
            # Imported here: most policies are not a user's.
            from traceback import extract_tb

            at = extract_tb(error.__traceback__)[-1]
            about = next((f" for job {each.id}" for each in arguments if isinstance(each, Job)), "")
            called = getattr(call, "__name__", "it")
            self.refuse(
                f"{called} raised {type(error).__name__}{about}: {error} ({at.filename}:{at.lineno})"
            )


class _WatchedCluster:
    """A cluster that asks the watch before it starts or stops a job."""

    def __init__(self, cluster: Cluster, watch: WatchedPolicy) -> None:
        self._cluster = cluster
        self._watch = watch
        self.now = -1

    def start(self, job: Job, now: int) -> bool:
        return self._watch.start(job, now)

    def stop(self, job: Job, now: int) -> None:
        self._watch.stop(job, now)

    def undo(self, job: Job) -> None:
        self._watch.undo(job)

    def end(self, job: Job) -> NoReturn:
        self._watch.refuse(f"ends job {job.id}, which only the caller may do")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # A copy is asked for such names before it has a cluster.
            raise AttributeError(name)
        return getattr(self._cluster, name)
