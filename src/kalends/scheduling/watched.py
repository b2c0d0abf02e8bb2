"""A user's own policy, watched: forbidden actions are errors that name it and the job.

It gets read-only jobs and a read-only cluster, and changes them only through methods. Policies that come with
kalends are not watched. It is not a sandbox either: the class is trusted like any Python code of one's own,
but not assumed to be correct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, NoReturn

from kalends.core.errors import InvalidInput, KalendsError
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.molding import mold

CALLERS_OWN: Final = frozenset(
    {"drain", "end", "expect_as_before", "expect_overdue", "goes_on", "kept", "reserve",
     "resized", "resume", "stopped", "unreserve"}
)  # fmt: skip
"""Methods of a cluster that only the caller of a scheduler may use."""

METHODS: Final = ("submitted", "ended", "withdrawn", "schedule", "waiting", "wake_at")

IDLE_WAKES_MAX: Final = 10_000
"""Maximum number of successive wakes that a policy may ask for without starting a job."""


class Interrupted(BaseException):
    """Raised into the class's own code from outside, to leave it; has the reason."""


class SeenJob:
    """A read-only job, without the true run time that a simulation knows.

    Only the size of a waiting job that has several is set by a policy, as `molding.mold` does it.
    """

    __slots__ = ("__job",)

    id: int
    order: int

    def __init__(self, job: Job) -> None:
        self.__job = job

    def __eq__(self, other: object) -> bool:
        # The cluster compares the jobs themselves.
        return other is self or other is self.__job

    def __hash__(self) -> int:
        return hash(self.__job.order)

    def _mold(self, nodes: int) -> None:
        job = self.__job
        if job.molds is None or job.start_s >= 0 or nodes not in job.molds.sizes:
            raise AttributeError(f"changes what job {job.id} asks for")
        mold(job, nodes)

    def _request(self, requested_s: int) -> None:
        # It comes with the size.
        if requested_s != self.__job.requested_s:
            raise AttributeError(f"changes what job {self.__job.id} asks for")


_SETTERS: Final = {"nodes": SeenJob._mold, "requested_s": SeenJob._request}


def _refusing(name: str) -> Callable[[SeenJob, object], None]:
    def refuse(seen: SeenJob, value: object) -> None:
        raise AttributeError(f"changes {name} of job {seen.id}")

    return refuse


for _name in Job.__struct_fields__:
    _setter = _SETTERS.get(_name) or _refusing(_name)
    setattr(SeenJob, _name, property(attrgetter(f"_SeenJob__job.{_name}"), _setter))


class WatchedPolicy:
    """A `Policy` that passes everything on to an object of the class `make`.

    It is called with the cluster, and the parameters `in_order` and `by_name`.

    Raises `InvalidInput` for a class that cannot be called in this way, lacks a method, raises, starts a job
    that does not wait, or at another time than now, changes a job's request, stops a job that does not run,
    or wants to be woken in the past, or repeatedly for nothing. Jobs that it had started remain started; the
    scheduler must not be used afterwards.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        cluster: Cluster,
        name: str,
        in_order: Sequence[Any] = (),
        by_name: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.cluster = cluster
        self.name = name
        self.wakes = True
        """True, because a user's class is asked each time."""
        self._waiting: dict[int, Job] = {}
        """Jobs by order of submission."""
        self._seen: dict[int, SeenJob] = {}
        """The class's view of each waiting or running job."""
        self._idle_wakes = 0
        self._proxy = _WatchedCluster(cluster, self)
        self._own = self.ask(make, self._proxy, *in_order, **by_name)
        self.chooses_sizes = bool(self._attribute("chooses_sizes"))
        for method in METHODS:
            if not callable(self._attribute(method)):
                self.refuse(f"has no method {method}")

    def submitted(self, job: Job, now: int) -> None:
        self._waiting[job.order] = job
        self._told(self._own.submitted, job, now)

    def ended(self, job: Job, now: int) -> None:
        self._told(self._own.ended, job, now)
        del self._seen[job.order]

    def withdrawn(self, job: Job, now: int) -> None:
        del self._waiting[job.order]
        self._told(self._own.withdrawn, job, now)
        del self._seen[job.order]

    def returned(self, job: Job, now: int) -> None:
        """Pass on a job that has waited before; a class without this method gets it as a new one."""
        self._waiting[job.order] = job
        own = self._attribute("returned")
        if own is not None:
            self._told(own, job, now)
            return
        self._told(self._own.submitted, job, now)
        self.schedule(now)

    def schedule(self, now: int) -> None:
        self._proxy.now = now
        self.ask(self._own.schedule, now)
        self._idle_wakes = 0 if self.cluster.touched else self._idle_wakes + 1

    def waiting(self) -> Iterator[Job]:
        return iter([self._waiting[order] for order in sorted(self._waiting)])

    def wake_at(self, now: int) -> int | None:
        self._proxy.now = -1  # Only a question for the next wake: no job may start here.
        wake_s = self.ask(self._own.wake_at, now)
        if wake_s is None:
            return None
        if not isinstance(wake_s, int) or wake_s < now:
            self.refuse(f"wants to be woken at {wake_s!r:.40}, and it is {now} now")
        if self._idle_wakes > IDLE_WAKES_MAX:
            self.refuse(f"was woken {IDLE_WAKES_MAX:,} times in a row and started nothing")
        return wake_s

    def seen(self, job: Job) -> SeenJob:
        """Return the class's view of a job, always the same object."""
        found = self._seen.get(job.order)
        if found is None:
            found = self._seen[job.order] = SeenJob(job)
        return found

    def start(self, seen: SeenJob, now: int) -> bool:
        """Start a job for the policy, if it may be started and fits."""
        job = self._waiting.get(seen.order)
        if job is None or self._seen.get(seen.order) is not seen:
            self.refuse(f"starts job {seen.id}, which does not wait")
        if now != self._proxy.now:
            self.refuse(f"starts job {job.id} at {now}, and it is {self._proxy.now} now")
        if not self.cluster.start(job, now):
            return False
        del self._waiting[job.order]
        return True

    def stop(self, seen: SeenJob, now: int) -> bool:
        """Stop a job for the policy, or ask it to stop, if it runs; return whether it waits again at once."""
        job = self._running(seen)
        if job is None:
            self.refuse(f"stops job {seen.id}, which does not run")
        if not self.cluster.can_stop(job):
            self.refuse(f"stops job {seen.id}, which can_stop says it may not")
        if now != self._proxy.now:
            self.refuse(f"stops job {job.id} at {now}, and it is {self._proxy.now} now")
        waits = self.cluster.stop(job, now)
        if waits:
            self._waiting[job.order] = job
        return waits

    def resize(self, seen: SeenJob, nodes: int, now: int) -> bool:
        """Ask a job to change its size for the policy, if it runs."""
        job = self._running(seen)
        if job is None:
            self.refuse(f"resizes job {seen.id}, which does not run")
        if now != self._proxy.now:
            self.refuse(f"resizes job {job.id} at {now}, and it is {self._proxy.now} now")
        return self.cluster.resize(job, nodes, now)

    def undo(self, seen: SeenJob) -> None:
        """Undo the start of a job for the policy."""
        job = self._running(seen)
        if job is None or job.stopping:
            self.refuse(f"takes back job {seen.id}, which does not run")
        self.cluster.undo(job)
        self._waiting[job.order] = job

    def ask(self, call: Callable[..., Any], *arguments: object, **named: object) -> Any:
        """Call the class's own code; raises `InvalidInput` for any error of it."""
        try:
            return call(*arguments, **named)
        except (KalendsError, KeyboardInterrupt):
            raise
        except BaseException as error:  # Any error of a user's class is reported as its own fault.
            called = getattr(call, "__name__", "it")
            about = next(
                (f" for job {each.id}" for each in arguments if isinstance(each, SeenJob)), ""
            )
            happened = f"raised {type(error).__name__}"
            if isinstance(error, Interrupted):
                happened = "was interrupted"
            self.refuse(f"{called} {happened}{about}: {error}{_place(error)}")

    def refuse(self, detail: str) -> NoReturn:
        """Raise `InvalidInput`: the policy is wrong."""
        raise InvalidInput(detail, where=f"policy {self.name}", remedy="follow docs/policies.md")

    def _running(self, seen: SeenJob) -> Job | None:
        return next(
            (job for _, _, job in self.cluster.ends if self._seen.get(job.order) is seen), None
        )

    def _attribute(self, name: str) -> Any:
        """Return the class's attribute of this name, which may be computed; None without it."""
        return self.ask(getattr, self._own, name, None)

    def _told(self, method: Callable[..., object], job: Job, now: int) -> None:
        self._idle_wakes = 0
        self._proxy.now = now
        self.ask(method, self.seen(job), now)


class _WatchedCluster:
    """A read-only cluster that asks the watch before it starts, stops or resizes a job."""

    def __init__(self, cluster: Cluster, watch: WatchedPolicy) -> None:
        self.__cluster = cluster
        self.__watch = watch
        self.now = -1

    @property
    def ends(self) -> list[tuple[int, int, SeenJob]]:
        seen = self.__watch.seen
        return [(until_s, order, seen(job)) for until_s, order, job in self.__cluster.ends]

    @property
    def touched(self) -> list[SeenJob]:
        return [self.__watch.seen(job) for job in self.__cluster.touched]

    def start(self, job: SeenJob, now: int) -> bool:
        return self.__watch.start(job, now)

    def stop(self, job: SeenJob, now: int) -> bool:
        return self.__watch.stop(job, now)

    def resize(self, job: SeenJob, nodes: int, now: int) -> bool:
        return self.__watch.resize(job, nodes, now)

    def undo(self, job: SeenJob) -> None:
        self.__watch.undo(job)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            # A copy may be asked for such names before it has a cluster.
            raise AttributeError(name)
        if name in CALLERS_OWN:
            self.__watch.refuse(f"calls {name}, which only the caller of the scheduler may do")
        return getattr(self.__cluster, name)


def _place(error: BaseException) -> str:
    """Return the class's own line from which an error came, in words."""
    # Imported here: most policies are not a user's.
    from traceback import walk_tb

    from kalends.scheduling.own_line import own_line

    _, *behind = walk_tb(error.__traceback__)
    at = own_line([(frame.f_code.co_filename, line) for frame, line in behind])
    return f" ({at})" if at else ""
