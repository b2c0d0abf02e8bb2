"""A policy of the owner's own over a live queue: what it decides is recorded, and it is disabled if it errs.

It is Python of the owner's, which may be random, may remember what it likes, or may be another one after a
restart. So what it has decided stands with the fact that it decided about (`facts.Decided`), and is
done again without it when the facts are replayed. If it errs, or takes too long, the default policy goes
on from there, in the same pass; that stands there, too.

A policy of ours decides again then, and should decide the same. If another version of it does not, it is
treated as if it were an owner's own (`replay`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Self, TypeVar

from kalends.batch.queue.facts import Allotment
from kalends.core.errors import KalendsError, StoreDamaged
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.molding import mold
from kalends.scheduling.policy import Policy, never_started
from kalends.scheduling.registry import policy_maker

T = TypeVar("T")

DEFAULT_POLICY: Final = "easy-priority"
"""It decides when the owner's own policy was disabled."""

FAULT_LENGTH_MAX: Final = 500

Watch = Callable[[Callable[[], None]], None]
"""Makes a call, and raises `TimeoutError` if that takes too long."""


def unwatched(call: Callable[[], None]) -> None:
    """Take it that no call takes too long: the `Watch` of those who only follow, and of tests."""
    call()


class Decisions:
    """Decisions about one fact: recorded while it happens, or prescribed when it is replayed."""

    def __init__(self) -> None:
        self.replayed = False
        """Whether it is prescribed."""
        self.recorded = False
        """Whether what was decided about the fact that is replayed stands with it."""
        self.passes: list[tuple[Allotment, ...]] = []
        self.fault = ""
        """Why the policy is disabled in the last of the passes."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Who asks what will be has a copy of the policy decide.
        return type(self)()

    def record(self) -> None:
        """From now on the policy decides."""
        self.replayed, self.passes, self.fault = False, [], ""

    def replay(self, passes: Sequence[tuple[Allotment, ...]], fault: str) -> None:
        """From now on do what it has decided; all further passes have decided nothing."""
        self.replayed, self.passes, self.fault = True, list(reversed(passes)), fault
        self.recorded = bool(passes)

    def taken(self) -> tuple[tuple[tuple[Allotment, ...], ...], str] | None:
        """Return what was recorded, in the form in which it is prescribed; None: nothing was decided."""
        passes = self.passes
        while passes and not passes[-1] and not self.fault:
            passes.pop()
        return (tuple(passes), self.fault) if passes else None

    def add(self, allotments: tuple[Allotment, ...], fault: str) -> None:
        self.passes.append(allotments)
        self.fault = self.fault or fault

    def take(self, allotments: tuple[Allotment, ...]) -> None:
        """Record what a policy of ours has decided in a pass; when it is replayed, compare.

        Raises `StoreDamaged` where it has decided something else than it did then. Nothing is compared
        where nothing is recorded: older versions did not record what ours decided.
        """
        if not self.replayed:
            self.add(allotments, "")
        elif self.recorded and (self.passes.pop() if self.passes else ()) != allotments:
            raise StoreDamaged(
                "the policy now decides differently from the journal",
                where="policy",
                remedy="take its decisions from the journal",
            )

    def next(self) -> tuple[tuple[Allotment, ...], str]:
        """Return what the next pass has decided, and why the policy is disabled in it, if it is."""
        allotments = self.passes.pop() if self.passes else ()
        fault = "" if self.passes else self.fault
        self.fault = self.fault if self.passes else ""
        return allotments, fault


class OwnPolicy:
    """A `Policy` that leaves everything to the class that `name` names, as long as that is right."""

    wakes = True

    def __init__(
        self, name: str, cluster: Cluster, decisions: Decisions, watch: Watch, fault: str = ""
    ) -> None:
        """With a `fault` it is disabled from the beginning."""
        self.cluster = cluster
        self.name = name
        self.fault = fault
        """Why it is disabled, or will be in the next pass; "": it decides."""
        self._decisions = decisions
        self._watch = watch
        self._waiting: dict[int, Job] = {}
        """Jobs by id."""
        self._own: Policy | None = None
        self._default: Policy | None = policy_maker(DEFAULT_POLICY)(cluster) if fault else None

    def at_rest(self) -> dict[str, Any]:
        """Return what a restart knows of it: the owner's class begins anew, and is told of all who wait."""
        return {**vars(self), "_own": None, "_watch": unwatched}

    def watched_by(self, watch: Watch) -> None:
        """From now on `watch` makes the calls of the owner's policy."""
        self._watch = watch

    @property
    def disabled(self) -> str:
        """Why the policy was disabled; "" if it decides."""
        return self.fault if self._default is not None else ""

    def submitted(self, job: Job, now: int) -> None:
        self._tell(lambda policy: policy.submitted(job, now), now)
        self._waiting[job.id] = job

    def ended(self, job: Job, now: int) -> None:
        self._tell(lambda policy: policy.ended(job, now), now)

    def withdrawn(self, job: Job, now: int) -> None:
        self._tell(lambda policy: policy.withdrawn(job, now), now)
        del self._waiting[job.id]

    def returned(self, job: Job, now: int) -> None:
        self._tell(lambda policy: policy.returned(job, now), now)
        self._waiting[job.id] = job

    def schedule(self, now: int) -> None:
        if self._default is not None:
            self._default.schedule(now)
        elif self._decisions.replayed:
            allotments, fault = self._decisions.next()
            for allotment in allotments:
                self._do_again(allotment, now)
            self._settle(fault, now)
        else:
            self._tell(lambda policy: policy.schedule(now), now)
            self._check_starts(now)
            self._decisions.add(allotments_of(self.cluster.touched, self.cluster), self.fault)
            self._settle(self.fault, now)
        self._forget_started()

    def waiting(self) -> Iterator[Job]:
        return iter(sorted(self._waiting.values(), key=lambda job: job.order))

    def wake_at(self, now: int) -> int | None:
        if self._default is not None:
            return self._default.wake_at(now)
        if self._own is None or self.fault:
            # It begins, or is disabled, in a pass: at once, so that its owner hears what is wrong.
            return now
        found: list[int | None] = []
        self._tell(lambda policy: found.append(policy.wake_at(now)), now)
        return found[0] if found else now

    def release_sizes(self) -> None:
        """Let who waits ask for what their users asked for, whatever sizes the policy has set."""
        for job in self.waiting():
            if job.request is not None:
                mold(job, job.request.nodes)

    def _tell(self, call: Callable[[Policy], object], now: int) -> None:
        """Tell the policy that decides; one that errs is disabled in the next pass."""
        if self._default is not None:
            call(self._default)
        elif not self._decisions.replayed and not self.fault:

            def told() -> None:
                call(self._own or self._begun(now))

            try:
                self._watch(told)
            except KalendsError as error:
                self.fault = str(error)[:FAULT_LENGTH_MAX]
            except TimeoutError as error:
                self.fault = f"policy {self.name}: {error}"[:FAULT_LENGTH_MAX]

    def _check_starts(self, now: int) -> None:
        """Find the fault of a policy that leaves the machine empty, and wants to look no more."""
        if self.fault or self.cluster.ends or self.cluster.touched:
            return
        waiting = list(self.waiting())
        fitting = next((job for job in waiting if self.cluster.can_start(job, now)), None)
        if fitting is not None and self.wake_at(now) is None:
            self.fault = str(never_started(self.name, len(waiting), fitting.id))[:FAULT_LENGTH_MAX]

    def _forget_started(self) -> None:
        for job in self.cluster.touched:
            self._waiting.pop(job.id, None)

    def _begun(self, now: int) -> Policy:
        """Return the owner's policy, new, and told of all who wait."""
        own = policy_maker(self.name)(self.cluster)
        for job in self.waiting():
            own.returned(job, now)
        self._own = own
        return own

    def _do_again(self, allotment: Allotment, now: int) -> None:
        if allotment.changes:
            running = [job for _, _, job in self.cluster.ends if job.id == allotment.job]
            done = any(self.cluster.resize(job, allotment.nodes, now) for job in running)
        elif not allotment.nodes:
            done = self._stop(allotment.job, now)
        else:
            waiting = self._waiting.get(allotment.job)
            done = waiting is not None and self._start(waiting, allotment, now)
        if not done:
            raise StoreDamaged(
                f"job {allotment.job} cannot have the {allotment.nodes} nodes of the policy's decision",
                where=f"policy {self.name}",
                remedy="restore the store from a backup",
            )

    def _stop(self, number: int, now: int) -> bool:
        for _, _, job in self.cluster.ends:
            if job.id == number and self.cluster.can_stop(job):
                self.cluster.stop(job, now)
                return True
        return False

    def _start(self, job: Job, allotment: Allotment, now: int) -> bool:
        mold(job, allotment.nodes)
        if job.nodes != allotment.nodes:
            return False
        if allotment.place is not None and isinstance(self.cluster, MappedCluster):
            return self.cluster.start_on(job, allotment.place, now)
        return self.cluster.start(job, now)

    def _settle(self, fault: str, now: int) -> None:
        """Disable the policy if it has a fault; what it has started stands."""
        if not fault:
            return
        self.fault, self._own = fault, None
        self._forget_started()
        self.release_sizes()
        self._default = policy_maker(DEFAULT_POLICY)(self.cluster)
        for job in self.waiting():
            self._default.returned(job, now)
        self._default.schedule(now)


def allotments_of(touched: Iterable[Job], cluster: Cluster) -> tuple[Allotment, ...]:
    """Return what was decided of the jobs that a pass has touched."""
    named = isinstance(cluster, MappedCluster)
    return tuple(
        Allotment(job.id, 0)
        if job.stopping
        else Allotment(
            job.id, job.target or job.nodes, bool(job.target), job.partition if named else None
        )
        for job in touched
    )
