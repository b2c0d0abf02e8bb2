"""The nodes of a machine, and the policy that gives them to jobs.

The same `Scheduler` that replays workload logs decides here; what it decides is translated into jobs and
numbers of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import structs

from kalends.batch.queue.facts import NodeClaim, Terms
from kalends.batch.queue.handed_over import PLACES, STAY_S
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.own_policy import Decisions, OwnPolicy, Watch, allotments_of, unwatched
from kalends.core.errors import Conflict, InvalidInput
from kalends.core.jobs import JobRequest
from kalends.machines.spec import machine_from
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job, Moldability, until_after_change
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.policy import Policy, promised_starts
from kalends.scheduling.registry import is_own, policy_maker
from kalends.scheduling.reservations import Reservation
from kalends.scheduling.scheduler import Scheduler

DEAREST_S: Final = 3600
"""A program that does not change when it is asked to is asked more and more rarely, up to this cost."""

ABOVE_ALL: Final = 1 << 30
"""The priority of jobs on nodes of their own reservations: no policy stops them for another."""


class Given(NamedTuple):
    """Decision of the policy about one job: `nodes` are all that it has now, or will have."""

    number: int
    nodes: tuple[int, ...]
    changes: bool
    """Whether it runs already, and is to change to these nodes; with `stops` it has them until it stops."""
    stops: bool


class MachineRoom:
    """One machine under one policy. Every call is one event, followed by one pass of the policy."""

    def __init__(
        self,
        terms: Terms,
        scheduler_type: type[Scheduler] = Scheduler,
        watch: Watch = unwatched,
        *,
        prescribed: bool = False,
    ) -> None:
        """`watch` makes the calls of a policy of the owner's own."""
        self._terms = self._made_for = terms
        self._watch = watch
        self.prescribed = prescribed
        """Whether every policy that is made now does what it has decided once, and nothing else."""
        self.decisions = Decisions()
        machine = machine_from(terms.machine)
        count = PLACES if terms.handed_to else machine.nodes
        plain = machine.interchangeable
        cluster = Cluster(count, live=True) if plain else MappedCluster(machine, live=True)
        self.nodes = machine.nodes
        self.out_reasons: dict[int, str] = {}
        """What the operator has said of nodes out of service."""
        self.back: dict[int, int] = {}
        """When nodes out of service are back by themselves."""
        self._claims: dict[int, NodeClaim] = {}
        self._empty = machine_from(terms.machine)
        self.scheduler = scheduler_type(self._maker(terms.policy)(cluster))
        self.scheduler.decided = self._decided

    def at_rest(self) -> dict[str, Any]:
        """Return what a restart knows of it."""
        return {**vars(self), "_watch": unwatched}

    def resume_as(self, scheduler_type: type[Scheduler], watch: Watch) -> None:
        """Go on with all that is known, as if it had been made with these."""
        self._watch = watch
        self.scheduler = self.scheduler.continued_as(scheduler_type)
        self.scheduler.decided = self._decided
        if isinstance(self.scheduler.policy, OwnPolicy):
            self.scheduler.policy.watched_by(watch)

    @property
    def stands_in(self) -> bool:
        """Whether something does what a policy of ours has decided once, in its place."""
        return isinstance(self.scheduler.policy, OwnPolicy) and not is_own(
            self.scheduler.policy.name
        )

    def _decided(self, touched: Sequence[Job]) -> None:
        """Hear what a pass has decided. A policy of the owner's own sees to that itself."""
        if not isinstance(self.scheduler.policy, OwnPolicy):
            self.decisions.take(allotments_of(touched, self.scheduler.cluster))

    def entry_of(self, job: BatchJob, priority: int, user: int, now: int) -> Job:
        """Return the job as policies see it; one in a reservation only runs, and nobody is above it."""
        request = job.request
        if request.reservation:
            return Job(
                job.number, now, request.nodes, 1,
                priority=ABOVE_ALL, user=user, interactive=request.terminal, shape=request.shape,
            )  # fmt: skip
        limit_s = STAY_S if self._terms.handed_to else request.limit_on(request.nodes)
        # A slot ends when it ends, also one of its own.
        ending_s = 0 if request.at else self._terms.ending_s
        longer_s = job.offered_s + ending_s
        return Job(
            job.number, now, request.nodes, limit_s + longer_s,
            priority=priority, user=user, interactive=request.terminal, shape=request.shape,
            molds=_molds_of(request, longer_s), ending_s=ending_s,
        )  # fmt: skip

    def width(self, request: JobRequest) -> int:
        """Return how many nodes a job takes: more than it asks for where only whole units are given."""
        return self.granted(request.nodes, request.shape)

    def granted(self, nodes: int, shape: tuple[int, ...]) -> int:
        """Return how many nodes are given to one that asks for so many, and for this shape if it has any."""
        return self._empty.granted(nodes, shape)

    def never_had(self, request: JobRequest) -> int:
        """Return a size of a job for which not even the empty machine could be configured; else 0."""
        sizes = request.sizes or (request.nodes,)
        fit = self._empty.could_ever_fit
        return next((nodes for nodes in sizes if not fit(nodes, request.shape)), 0)

    def check_machine(self, terms: Terms) -> None:
        """Raise `InvalidInput` for terms of another machine than the one that this was made for."""
        made = self._made_for
        if terms.handed_to != made.handed_to:
            what = "batch system", made.handed_to or "this host", terms.handed_to or "this host"
        elif not made.handed_to and terms.machine != made.machine:
            what = "shape", made.machine, terms.machine
        else:
            return
        raise InvalidInput(
            f"the stored queue belongs to {what[1]}, not to {what[2]}",
            where=what[0],
            remedy="restore what it was, or give the changed machine another resource",
        )

    @property
    def fault(self) -> str:
        """Why the owner's own policy was disabled; "" if it was not."""
        policy = self.scheduler.policy
        return policy.disabled if isinstance(policy, OwnPolicy) else ""

    def switch(self, terms: Terms, now: int) -> list[Given]:
        """Follow new terms, under another policy perhaps: the jobs stay, in their order."""
        before, self._terms = self._terms, terms
        if terms.policy == before.policy:
            return []
        return self._switch(self._maker(terms.policy), now)

    def put_back(self, now: int) -> list[Given]:
        """Let the owner's own policy decide again that was disabled."""
        return self._switch(self._maker(self._terms.policy), now)

    def replan(self, now: int) -> list[Given]:
        """Recompute the plan under the same policy: its earlier promises no longer hold."""
        return self._switch(self._maker(self._terms.policy, self.fault), now)

    def _switch(self, make: Callable[[Cluster], Policy], now: int) -> list[Given]:
        before = self.scheduler.policy
        if isinstance(before, OwnPolicy):
            before.release_sizes()
        return _given(self.scheduler.switch(make, now))

    def _maker(self, name: str, fault: str = "") -> Callable[[Cluster], Policy]:
        """Return the maker of a policy; one of the owner's own is not loaded before it is to decide."""
        if not is_own(name) and not self.prescribed:
            return policy_maker(name)
        return lambda cluster: OwnPolicy(name, cluster, self.decisions, self._watch, fault)

    def promises(self) -> dict[int, int]:
        """Return the starts that the policy has promised waiting jobs, by their numbers."""
        return {job.id: start_s for job, start_s in promised_starts(self.scheduler.policy)}

    def queue(self, entry: Job, now: int) -> list[Given]:
        """Let a job wait for nodes; one that was held gets its old place."""
        if entry.id in self.scheduler.held:
            return _given(self.scheduler.release(entry, now))
        return _given(self.scheduler.submit(entry, now))

    def hold(self, entry: Job, now: int) -> list[Given]:
        """Let a waiting job stand aside."""
        return _given(self.scheduler.hold(entry, now))

    def withdraw(self, entry: Job, now: int) -> list[Given]:
        """Take a job out of the queue for good, whether it waits or is held."""
        return _given(self.scheduler.withdraw(entry, now))

    def end(self, entry: Job, now: int, *, by_itself: bool) -> list[Given]:
        """Take back the nodes of a job, all of whose processes are gone; one that was stopped has none."""
        if not entry.granted:
            return self.withdraw(entry, now)
        end = self.scheduler.end if by_itself else self.scheduler.break_off
        return _given(end(entry, now))

    def start_in(self, booking: int, entry: Job, now: int) -> list[Given]:
        """Start a job on nodes of a claim; nobody gets any if it cannot have them at present."""
        try:
            return _given(self.scheduler.start_in(str(booking), entry, now))
        except Conflict:
            return []

    def run_again(self, entry: Job, again: Job, now: int) -> list[Given]:
        """End the run like `end`; the job then waits first, at its old place."""
        return _given(self.scheduler.run_again(entry, again, now))

    def let_change(self, entry: Job, now: int) -> list[Given]:
        """Let the policy change the size of a job from now on: its program runs."""
        if entry.molds is not None:
            entry.molds = structs.replace(entry.molds, malleable=True)
        return self.pass_time(now)

    def let_be(self, entry: Job, now: int) -> list[Given]:
        """Let the policy do no more with a job: it is to end."""
        if entry.molds is not None:
            entry.molds = structs.replace(entry.molds, malleable=False, when_begun=False)
        entry.stays = True
        waits = not entry.granted and entry.id not in self.scheduler.held
        return self.hold(entry, now) if waits else []

    def stop_answered(self, entry: Job, now: int, *, stands: bool) -> list[Given]:
        """Take back the nodes of a job that stands still, and waits to go on; or it cannot be stopped."""
        answer = self.scheduler.stopped if stands else self.scheduler.not_stopped
        return _given(answer(entry, now))

    def resized(self, entry: Job, took_s: float, now: int) -> tuple[int, list[Given]]:
        """Take it that a program has changed as it was asked to, which took so long.

        Returns also by when it is to be over (`until_after_change`).
        """
        assert entry.before is not None
        assert entry.molds is not None
        took = min(int(took_s + 0.5), now - entry.before.asked_s)
        until_s = until_after_change(entry, took, now)
        entry.molds = structs.replace(entry.molds, reconfiguration_s=took)
        return until_s, _given(self.scheduler.resized(entry, now, until_s))

    def kept(self, entry: Job, now: int) -> tuple[int, list[Given]]:
        """Take it that a program has not changed as it was asked to; the next time that is thought twice of.

        Returns also by when it is to be over, as `resized` does.
        """
        before, molds = entry.before, entry.molds
        assert before is not None
        assert molds is not None
        dear_s = max(2 * molds.reconfiguration_s, now - before.asked_s, 1)
        entry.molds = structs.replace(molds, reconfiguration_s=min(dear_s, DEAREST_S))
        return before.until_s, _given(self.scheduler.kept_size(entry, now))

    def denies_size(self, entry: Job, nodes: int, now: int) -> str:
        """Return why a program that wants so many nodes does not get them now; "": it does."""
        return self.scheduler.denies_size(entry, nodes, now)

    def change_size(self, entry: Job, nodes: int, now: int) -> list[Given]:
        """Have a program change as it wants to, unless that is denied now."""
        return _given(self.scheduler.change_size(entry, nodes, now))

    def changing(self) -> list[Job]:
        """Return the jobs that were asked to change, and have not answered."""
        return [entry for _, _, entry in self.scheduler.cluster.ends if entry.target]

    def nodes_before(self, entry: Job) -> tuple[int, ...]:
        """Return the numbers of the nodes that a job had before it was asked to change."""
        assert entry.before is not None
        return entry.before.partition.nodes if entry.before.partition is not None else ()

    def nodes_of(self, entry: Job) -> tuple[int, ...]:
        return entry.partition.nodes if entry.partition is not None else ()

    def reservations(self) -> list[Reservation]:
        """Return what nodes are kept for, each with its booking for a name."""
        return list(self.scheduler.cluster.made)

    def check_room(self, claim: NodeClaim, now: int) -> None:
        """Raise `Conflict` where a claim that comes would find no room, and `InvalidInput` if it is over."""
        self.scheduler.check_room(_reservation(claim), now, sparing=self._spares)

    @property
    def names_nodes(self) -> bool:
        """Whether it matters which nodes are free: on a topology."""
        return isinstance(self.scheduler.cluster, MappedCluster)

    @property
    def why_unplaced(self) -> str:
        """Return the alarm for a claim without nodes."""
        if self.names_nodes:
            return "nodes of running jobs leave a reservation no adjacent nodes"
        return "a job beyond its time limit occupies reserved nodes"

    def have_room(self, came: Iterable[NodeClaim], gone: Collection[int], now: int) -> bool:
        """Return whether the nodes of a topology make a place for claims that come, once others are gone.

        The units of the calendar do not tell. Nodes that waiting jobs are promised count as taken, unless
        the owner lets a reservation delay them.
        """
        wanted = [_reservation(each) for each in came if each.end > now]
        names = list(map(str, gone))
        return self.scheduler.have_room(wanted, names, now, sparing=self._spares)

    @property
    def _spares(self) -> bool:
        return self._terms.may_delay != "all"

    def claims(self) -> dict[int, NodeClaim]:
        """Return the claims of the calendar that were told, and not over then, by their bookings."""
        return {booking: each for booking, each in self._claims.items() if booking > 0}

    def unplaced(self) -> set[int]:
        """Return those of them that no nodes are kept free for."""
        return self._claims.keys() - {int(each.name) for each in self.scheduler.cluster.made}

    def claims_changed(
        self,
        gone: Collection[int],
        came: Collection[NodeClaim],
        now: int,
        guests: Mapping[int, Collection[Job]],
    ) -> tuple[list[Given], list[int]]:
        """Keep nodes free of jobs for the calendar's claims; one pass follows, whatever has changed.

        `guests` are running jobs that have nodes of a claim that comes. Returns also the claims for which
        jobs beyond their time leave no room: they are not kept.
        """
        kept = {booking: each for booking, each in self._claims.items() if booking not in gone}
        kept.update((each.booking, each) for each in came)
        self._claims = {booking: each for booking, each in kept.items() if each.end > now}
        reservations = [_reservation(each) for each in came]
        names = [str(booking) for booking in gone]
        inside = {str(booking): jobs for booking, jobs in guests.items()}
        touched, refused = self.scheduler.rearrange(names, reservations, now, inside)
        return _given(touched), list(map(int, refused))

    def drain(self, nodes: Collection[int], reason: str, now: int, until_s: int = 0) -> list[Given]:
        """Let `nodes` take no new jobs until they are resumed, or until `until_s`."""
        self.out_reasons.update(dict.fromkeys(nodes, reason))
        for node in nodes:
            self.back.pop(node, None)
        self.back.update(dict.fromkeys(nodes, until_s) if until_s else {})
        return _given(self.scheduler.drain(nodes, now, until_s))

    def due_back(self, now: int) -> list[int]:
        """Return the nodes whose time out of service is over."""
        return [node for node, until_s in self.back.items() if until_s <= now]

    def resume(self, nodes: Collection[int], now: int) -> list[Given]:
        for node in nodes:
            self.out_reasons.pop(node, None)
            self.back.pop(node, None)
        return _given(self.scheduler.resume(nodes, now))

    def pass_time(self, now: int) -> list[Given]:
        """Let the policy look, though nothing has happened."""
        return _given(self.scheduler.wake(now))

    def overdue(self) -> Collection[int]:
        """Return the running jobs that are beyond their time."""
        cluster = self.scheduler.cluster
        if not cluster.overdue:
            return ()
        return [entry.id for _, order, entry in cluster.ends if order in cluster.overdue]

    def wake_at(self, now: int) -> int | None:
        """Return when `pass_time` is due without another event before; None: never.

        Also at the expected end of each job: who is not over by then is expected to end later.
        """
        ends = self.scheduler.cluster.ends
        times = [ends[0][0]] if ends else []
        wake_s = self.scheduler.wake_at(now)
        return min([*times, *([] if wake_s is None else [wake_s])], default=None)


def _reservation(claim: NodeClaim) -> Reservation:
    return Reservation(claim.start, claim.end, claim.nodes, str(claim.booking), shape=claim.shape)


def _given(touched: Iterable[Job]) -> list[Given]:
    given = []
    for entry in touched:
        assert entry.partition is not None, (
            "on a real cluster a job keeps its nodes until it has stopped"
        )
        count = entry.target or entry.granted
        has = entry.partition.nodes[:count]
        given.append(Given(entry.id, has, bool(entry.target), entry.stopping))
    return given


def _molds_of(request: JobRequest, longer_s: int) -> Moldability | None:
    """Return the sizes of a program that can choose, and its limit on each; none changes before it runs."""
    if len(request.sizes) < 2:
        return None
    return Moldability(
        request.sizes,
        tuple(request.limit_on(nodes) + longer_s for nodes in request.sizes),
        reconfiguration_s=request.change_s,
        scales=not request.limits_s,
        when_begun=request.malleable,
    )
