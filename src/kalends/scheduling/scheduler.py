"""One cluster under one policy: it takes events, and returns jobs that begin, stop or change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from types import MappingProxyType
from typing import Any, Final

from kalends.core.errors import Conflict, InvalidInput
from kalends.core.excerpts import excerpt
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.policy import Policy, places_of
from kalends.scheduling.reservations import Reservation

LONG_AGO: Final = -(1 << 62)
"""Earlier than any time."""


class Scheduler:
    """The state machine that both a live queue and the simulator drive. Pure: `now` is a parameter.

    Every event is followed by exactly one pass of the policy. Events return the jobs whose nodes changed,
    in the order of the changes: `Job.granted` is the new number, 0 for none. The same events at the same
    times give the same decisions.

    A live queue makes the cluster `live`, and reports every event when it learns of it, at a time that
    never goes back. Before an event counts, every running job whose time is over is expected to end a
    little later, so that no nodes are given twice. After each event it asks `wake_at` when to call `wake`;
    a late call costs time, but has no other effect. A refused event raises and changes nothing, so only
    accepted events need to be kept and replayed after a restart. When an owner's own policy raises, `switch`
    to another: no job is lost, and that call returns the jobs that had been started.
    """

    def __init__(self, policy: Policy) -> None:
        """Raises `Conflict` if another scheduler drives the cluster of the policy already."""
        self.policy = policy
        self.cluster: Cluster = policy.cluster
        if self.cluster.driven:
            raise Conflict(
                "another scheduler drives this cluster",
                where="cluster",
                remedy="switch the policy of that one, or make another cluster",
            )
        self.cluster.driven = True
        self.jobs: dict[int, Job] = {}
        """The jobs that wait, are held or run, by their ids; kept only where the cluster is live."""
        self.held: dict[int, Job] = {}
        """The jobs among them that are held."""
        self.decided: Callable[[Sequence[Job]], None] | None = None
        """An observer of the jobs that each pass of the policy has touched."""
        self._live = self.cluster.live
        self._wakes = policy.wakes or self._live
        self._submissions = 0
        self._withdrawals = 0
        """Jobs that were withdrawn or are held."""
        self._unseen: set[int] = set()
        """Running jobs, by order, that the policy has never seen, because they started in reservations."""
        self._last_s = LONG_AGO

    def continued_as(self, kind: type[Scheduler]) -> Scheduler:
        """Return a scheduler of this kind that continues from here; do not use this one afterwards.

        Raises `InvalidInput` for a kind that would need the events so far.
        """
        if type(self) is kind:
            return self
        raise InvalidInput(
            f"a {type(self).__name__} cannot continue as a {kind.__name__}", where="scheduler"
        )

    @property
    def waiting(self) -> int:
        """Number of waiting jobs, without those that are held."""
        return self._submissions - self._withdrawals - self.cluster.begun

    def submit(self, job: Job, now: int) -> list[Job]:
        """Add a waiting job; return the jobs that start, change or stop.

        Raises `InvalidInput`, and nothing has changed, if it could never run; live also `Conflict` for a
        known job or id.
        """
        if self._live:
            self._check_new(job, now)
        self._check_fits(job)
        job.order = self._submissions
        self._submissions += 1
        if self._live:
            job.request = job.request or job.as_requested()
            self.jobs[job.id] = job
            self._pass_to(now)
        self.policy.submitted(job, now)
        return self._touched_in_pass(now)

    def end(self, job: Job, now: int) -> list[Job]:
        """Record that a running job has ended, on its own or at its limit: its nodes are free.

        Raises `Conflict`, and nothing has changed, if it does not run.
        """
        if not job.granted:
            raise Conflict(
                f"job {job.id} does not run", where="job", remedy="end a running job once"
            )
        if self._live:
            self._check_time(now)
            self._check_here(job)
            del self.jobs[job.id]
        self.cluster.end(job)
        if self._live:
            self._pass_to(now)
        self._tell_ended(job, now)
        return self._touched_in_pass(now)

    def break_off(self, job: Job, now: int) -> list[Job]:
        """Record that a running job was aborted: its launch or its nodes failed, or it was killed.

        As `end`, but its time is no evidence of the run times of such jobs.
        """
        return Scheduler.end(self, job, now)

    def run_again(self, job: Job, again: Job, now: int) -> list[Job]:
        """As `break_off`, but first `again` waits at the place of `job`, before other jobs are tried.

        It can also replace a job that was stopped. Only live. Raises `Conflict`, and nothing has changed, if
        `job` has not begun.
        """
        self._check_live()
        self._check_time(now)
        self._check_here(job)
        if job.start_s < 0 or again.order >= 0:
            raise Conflict(
                f"job {job.id} has not begun, or waits already",
                where="job",
                remedy="break off a running job once",
            )
        if job.granted:
            self.cluster.end(job)
        elif self.held.pop(job.id, None) is None:
            self._leave(job, now)
        again.order, again.request = job.order, again.as_requested()
        self.jobs[job.id] = again
        self._pass_to(now)
        if job.until_s >= 0:
            self._tell_ended(job, now)
        self._submissions += 1
        self._withdrawals += 1
        self._return(again, now)
        return self._touched_in_pass(now)

    def withdraw(self, job: Job, now: int) -> list[Job]:
        """Withdraw a waiting job, or one that is held.

        Raises `Conflict`, and nothing has changed, if it does not wait: it runs, has ended, was
        withdrawn before or never submitted.
        """
        self._check_waits(job, now)
        self.jobs.pop(job.id, None)
        if self.held.pop(job.id, None) is None:
            self._leave(job, now)
        return self.wake(now)

    def hold(self, job: Job, now: int) -> list[Job]:
        """Hold a waiting job until it is released. Raises as `withdraw` does; only live."""
        self._check_live()
        self._check_waits(job, now)
        if job.id in self.held:
            raise Conflict(f"job {job.id} is held", where="job", remedy="hold a waiting job once")
        self.held[job.id] = job
        self._leave(job, now)
        return self.wake(now)

    def release(self, job: Job, now: int) -> list[Job]:
        """Release a held job, which waits again at its old place. Raises `Conflict` if it is not held."""
        self._check_time(now)
        if self.held.get(job.id) is not job:
            raise Conflict(f"job {job.id} is not held", where="job", remedy="release a held job")
        del self.held[job.id]
        self._return(job, now)
        return self.wake(now)

    def reserve(self, reservation: Reservation, now: int) -> list[Job]:
        """Keep nodes free for a reservation, or change the one of its name. Running jobs are never moved.

        Raises `InvalidInput` and `Conflict` as `Cluster.reserve` does. Only live.
        """
        with self._asked(now):
            self.cluster.reserve(reservation, now, planned=places_of(self.policy))
        return self.wake(now)

    def unreserve(self, name: str, now: int) -> list[Job]:
        """Remove a reservation. Raises `NotFound` without a current or later one of this name. Only live."""
        with self._asked(now):
            self.cluster.unreserve(name, now)
        return self.wake(now)

    def check_room(self, reservation: Reservation, now: int, *, sparing: bool = False) -> None:
        """Raise the errors of `reserve`, without any effect, not even on the time.

        With `sparing`, also raise if it would take nodes that are planned for waiting jobs by name.
        """
        with self._as_if_asked(now):
            planned = places_of(self.policy)
            self.cluster.check_room(reservation, now, planned=planned, sparing=sparing)

    def have_room(
        self, came: Iterable[Reservation], gone: Collection[str], now: int, *, sparing: bool
    ) -> bool:
        """Return whether named nodes have a place for all new reservations once others are gone.

        With `sparing`, a place next to the nodes planned for waiting jobs. Always true if nodes are only
        counted. Has no effect.
        """
        if not isinstance(self.cluster, MappedCluster):
            return True
        with self._as_if_asked(now):
            planned = places_of(self.policy) if sparing else ()
            return self.cluster.have_room(came, gone, now, planned)

    def start_in(self, name: str, job: Job, now: int) -> list[Job]:
        """Start a job, which has not waited here, on nodes of the reservation `name` until that ends.

        The policy does not see it. Raises `Conflict`, and nothing has changed, if too few of its nodes are
        free; and the errors of `submit`. Only live.
        """
        with self._asked(now):
            self._check_new(job, now)
            self._check_fits(job)
            job.order, asked = self._submissions, job.as_requested()
            if not self.cluster.start_in(name, job, now):
                job.order = -1
                raise Conflict(
                    f"no {job.nodes} nodes of the reservation {excerpt(name)} are free",
                    where="reservation",
                    remedy="wait until others have ended",
                )
            self._submissions += 1
            job.request = job.request or asked
            self.jobs[job.id] = job
            self._unseen.add(job.order)
            # The policy takes all jobs touched in a pass for its own doing.
            self.cluster.touched.remove(job)
        return [job, *self.wake(now)]

    def rearrange(
        self,
        gone: Collection[str],
        came: Collection[Reservation],
        now: int,
        guests: Mapping[str, Collection[Job]] = MappingProxyType({}),
    ) -> tuple[list[Job], list[str]]:
        """Remove and add reservations, all of them before anything starts. Only live.

        `guests` are running jobs that have nodes of a reservation that comes, by its name.
        Returns the touched jobs, and the names of reservations for which running jobs leave no room: these
        are not kept. Ended reservations are removed. Raises `InvalidInput` as `reserve` does.
        """
        refused = []
        with self._asked(now):
            present = {each.name for each in self.cluster.made if each.end_s > now}
            for name in sorted(present.intersection(gone)):
                self.cluster.unreserve(name, now)
            planned = places_of(self.policy)
            for reservation in came:
                try:
                    if reservation.end_s > now:
                        inside = guests.get(reservation.name, ())
                        self.cluster.reserve(reservation, now, inside, planned)
                except Conflict:
                    refused.append(reservation.name)
        return self.wake(now), refused

    def drain(self, nodes: Collection[int], now: int, back_s: int = 0) -> list[Job]:
        """Put nodes out of service, as `Cluster.drain` does.

        If nodes have names, reservations get others if possible. If nodes have failed, `jobs_on` returns the
        jobs to be aborted. Raises `InvalidInput` for nodes that do not exist. Only live.
        """
        with self._asked(now):
            self.cluster.drain(nodes, back_s)
            if isinstance(self.cluster, MappedCluster):
                self.cluster.leave_nodes_out(now, places_of(self.policy))
        return self.wake(now)

    def resume(self, nodes: Collection[int], now: int) -> list[Job]:
        """Put nodes back into service. Raises as `drain` does."""
        with self._asked(now):
            self.cluster.resume(nodes)
        return self.wake(now)

    def jobs_on(self, nodes: Collection[int]) -> list[Job]:
        """Return the running jobs that have any of these nodes, by their expected ends. Not an event."""
        wanted = set(nodes)
        running = [job for _, _, job in self.cluster.ends]
        return [
            job for job in running if job.partition and not wanted.isdisjoint(job.partition.nodes)
        ]

    def switch(self, make: Callable[[Cluster], Policy], now: int) -> list[Job]:
        """Change the policy: running jobs continue, and waiting jobs keep the order of submission.

        Starts that the former policy promised no longer hold. Raises the errors of `make`, and nothing has
        changed then. Only live.
        """
        with self._asked(now):
            policy = make(self.cluster)
        present = [job for job in self.jobs.values() if not job.granted and job.id not in self.held]
        self.policy = policy
        for job in sorted(present, key=lambda job: job.order):
            policy.returned(job, now)
        return self.wake(now)

    def resized(self, job: Job, now: int, until_s: int) -> list[Job]:
        """Record that a running job has changed to its `target` and expects to end by `until_s`."""
        if self._live:
            self._check_time(now)
            self._check_here(job)
        self.cluster.resized(job, until_s)
        return self.wake(now)

    def kept_size(self, job: Job, now: int) -> list[Job]:
        """Record that a running job has not made its requested change: it keeps its former nodes."""
        self._check_time(now)
        self._check_here(job)
        self.cluster.kept(job)
        return self.wake(now)

    def denies_size(self, job: Job, nodes: int, now: int) -> str:
        """Return why a running job does not get the size now that it wants itself; "" if it does."""
        denies = getattr(self.policy, "denies", None)
        if denies is None:
            return "the policy of this machine changes no sizes"
        said: str = denies(job, nodes, now)
        return said

    def change_size(self, job: Job, nodes: int, now: int) -> list[Job]:
        """Ask a running job to change as it wants to, unless that is denied now. Only live."""
        with self._asked(now):
            self._check_here(job)
            if not self.denies_size(job, nodes, now):
                self.policy.ask(job, nodes, now)  # type: ignore[attr-defined]  # who denies, asks
        return self.wake(now)

    def stopped(self, job: Job, now: int) -> list[Job]:
        """Record that a job that was asked to stop stands still: it waits again, at its old place.

        It waits for the rest of its time. Raises `Conflict`, and nothing has changed, if it was not asked.
        Only live.
        """
        self._check_asked_to_stop(job, now)
        self.cluster.stopped(job, now)
        self.policy.returned(job, now)
        return self.wake(now)

    def not_stopped(self, job: Job, now: int) -> list[Job]:
        """Record that a running job cannot be stopped as requested. Raises as `stopped` does."""
        self._check_asked_to_stop(job, now)
        self.cluster.goes_on(job)
        return self.wake(now)

    def wake(self, now: int) -> list[Job]:
        """Run a pass of the policy without an event."""
        if self._live:
            self._check_time(now)
            self._pass_to(now)
        return self._touched_in_pass(now)

    def wake_at(self, now: int) -> int | None:
        """Return when to call `wake` without another event before; None: never."""
        return self.policy.wake_at(now) if self._wakes else None

    def frozen(self, copies: dict[int, Any]) -> Scheduler:
        """Return an independent copy for predictions; `copies` is a memo for `deepcopy`.

        Its ends come when expected, as in a simulation, and jobs that were asked to stop have stopped. Held
        jobs are left out.
        """
        policy = deepcopy(self.policy, copies)
        for job in [job for _, _, job in policy.cluster.ends if job.stopping]:
            policy.cluster.stopped(job, self._last_s)
            policy.returned(job, self._last_s)
        policy.cluster.foresee()
        twin = Scheduler(policy)
        twin._wakes = self._wakes
        twin._submissions, twin._withdrawals = self._submissions, self._withdrawals
        twin._unseen = set(self._unseen)
        return twin

    def _touched_in_pass(self, now: int) -> list[Job]:
        self.policy.schedule(now)
        touched, self.cluster.touched = self.cluster.touched, []
        if self.decided is not None:
            self.decided(touched)
        return touched

    def _tell_ended(self, job: Job, now: int) -> None:
        if job.order in self._unseen:
            self._unseen.discard(job.order)
        else:
            self.policy.ended(job, now)

    def _leave(self, job: Job, now: int) -> None:
        self.policy.withdrawn(job, now)
        self._withdrawals += 1

    def _return(self, job: Job, now: int) -> None:
        self._withdrawals -= 1
        self.policy.returned(job, now)

    def _pass_to(self, now: int) -> None:
        """Advance the time; jobs beyond their time are expected to end later."""
        self._last_s = now
        self.cluster.expect_overdue(now)

    @contextmanager
    def _as_if_asked(self, now: int) -> Iterator[None]:
        """Answer a question as of `now`, without any effect."""
        self._check_live()
        moved = self.cluster.expect_overdue(now)
        try:
            yield
        finally:
            self.cluster.expect_as_before(moved)

    @contextmanager
    def _asked(self, now: int) -> Iterator[None]:
        """Carry out an action as of now. If it is refused, nothing has changed, not even the time."""
        self._check_live()
        self._check_time(now)
        moved = self.cluster.expect_overdue(now)
        try:
            yield
        except Exception:
            self.cluster.expect_as_before(moved)
            raise
        self._last_s = now

    def _check_new(self, job: Job, now: int) -> None:
        self._check_time(now)
        self._check_numbers(job)
        if job.id in self.jobs or job.order >= 0:
            raise Conflict(
                f"job {job.id} was submitted before",
                where="job",
                remedy="give each an id of its own",
            )

    def _check_numbers(self, job: Job) -> None:
        if job.nodes < 1 or job.requested_s < 1:
            raise InvalidInput(
                f"job {job.id} asks for {job.nodes} nodes for {job.requested_s} s",
                where="job",
                remedy="ask for 1 or more of both",
            )

    def _check_fits(self, job: Job) -> None:
        if not self.cluster.could_ever_fit(job):
            raise InvalidInput(
                f"job {job.id} asks for {job.nodes} nodes, and never fits on {self.cluster.nodes}",
                where="nodes",
                remedy="ask for fewer nodes or another shape",
            )

    def _check_waits(self, job: Job, now: int) -> None:
        if self._live:
            self._check_time(now)
            waits = self.jobs.get(job.id) is job and not job.granted
        else:
            waits = job in self.policy.waiting()
        if not waits:
            remedy = "end it instead" if job.granted else "name a job that waits"
            raise Conflict(f"job {job.id} does not wait", where="job", remedy=remedy)

    def _check_asked_to_stop(self, job: Job, now: int) -> None:
        self._check_live()
        self._check_time(now)
        self._check_here(job)
        if not job.stopping:
            raise Conflict(
                f"job {job.id} was not asked to stop", where="job", remedy="see what it was asked"
            )

    def _check_here(self, job: Job) -> None:
        if self.jobs.get(job.id) is not job:
            raise Conflict(f"job {job.id} is not here", where="job", remedy="name a job that is")

    def _check_time(self, now: int) -> None:
        if now < self._last_s:
            raise Conflict(
                f"it was {self._last_s} before, and is {now} now",
                where="now",
                remedy="give a time that never goes back",
            )

    def _check_live(self) -> None:
        if not self._live:
            raise Conflict(
                "the cluster is not live", where="cluster", remedy="make it with live=True"
            )
