"""The queues of a site that run: their facts are stored first, then jobs are started and ended.

What a step has decided is carried out when the facts of this step, and of all steps before, are durable. So
after a crash the stored facts tell everything that may have been begun, and the records of the attempts
tell what has become of it.

There is one ledger with the calendar: before anything else happens, what a queue has given to jobs is booked
there, and what was claimed there is kept free of jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

from msgspec import structs

from kalends.batch.job_notices import JobNotices
from kalends.batch.journal.contract import JobEntries, JobOver, ReservedTime, StoredHost
from kalends.batch.planned_pieces import planned_pieces
from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Action, Occupied, QueueEffects
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.offers import are_soft
from kalends.batch.queue.own_policy import DEFAULT_POLICY
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.reserved_time import ReservationWatch
from kalends.batch.views import over_of
from kalends.calendars.bookings import Booking
from kalends.core.durations import format_duration
from kalends.core.errors import KalendsError, Unavailable
from kalends.core.intervals import Moment
from kalends.notices.delivery import Delivery

T = TypeVar("T")

LOOK_EVERY_S: Final = 15.0
"""A timer that was set by a clock that has jumped since is mended within this time."""

AHEAD_S_MAX: Final = 60
"""More than NTP corrects in one step after hours without a network."""

Operation = JobEntries | JobOver | ReservedTime | StoredHost | Delivery
Step = Callable[[BatchQueue, int], object]


class SiteLedger(Protocol):
    """The calendar of the site, and its store."""

    def store_jobs(
        self,
        operations: Sequence[Operation],
        durable: Callable[[], None],
        charged: Sequence[tuple[str, BatchJob]] = (),
    ) -> None:
        """Store, and call `durable` when it is done; if that fails, this life of the site is over.

        The jobs `charged`, each of a machine, are over; each is charged once, by the same write.
        """

    def store_later(self, operations: Sequence[Operation]) -> None:
        """Store before the next write, or soon: no answer depends on it yet."""

    def moved(
        self,
        machine: str,
        jobs: Sequence[tuple[Occupied, str]],
        planned: Callable[[], Sequence[tuple[int, int, int]]],
        given_back: Collection[int] | None,
    ) -> list[int]:
        """Book at once what the queue has changed; return the jobs for whose nodes there is no room.

        `jobs` are what each has now, and its user. Nodes are kept from new claims as `planned` says when it
        is asked (start, end, how many), until the next call. Jobs may stand on the nodes of the claims
        `given_back`, for which nobody has come; None: as before.
        """

    def bookings(self, machine: str) -> Iterable[int]:
        """Return all claims of others on a machine."""

    def claims_within(self, machine: str, start: int, end: int) -> Iterable[Booking]:
        """Return the claims of others on a machine in a time, with whose they are."""

    def claim(self, machine: str, booking: int) -> f.NodeClaim | None:
        """Return one of them, or None if it no longer stands."""

    def changed(self, request: str) -> Sequence[str]:
        """Return the requests that this one has changed, the last one first."""

    def steps(self, queue: BatchQueue, job: BatchJob) -> Sequence[tuple[int, int, int]]:
        """Return the prices of a job that has just got its nodes, until its limit, for `JobPriced`."""


class QueueService:
    """One life of the queues of a site, from the opening of its store to its failure or its end."""

    def __init__(
        self,
        queues: Mapping[str, BatchQueue],
        ledger: SiteLedger,
        *,
        moment: Callable[[], Moment],
        carry_out: Callable[[str, Sequence[Action]], None],
        moved: Callable[[str, Mapping[int, str]], None],
        alarmed: Callable[[str], None],
        reserved: Mapping[str, Sequence[ReservedTime]],
        reported: Callable[[str, str], None],
        notices: JobNotices,
        broken: Callable[[str, Exception], Unavailable],
        over: Sequence[Callable[[str, BatchJob], None]],
    ) -> None:
        """`reserved` are the reservations of each machine that had begun when it was last looked at.

        `reported` is told of a problem about something, and with "" that it is over. `broken` is told when
        a queue has raised what is no refusal; it ends this life, and returns what those who wait are told.
        `over` hear of each job that is over, but for offers.
        """
        self.queues = queues
        self._ledger = ledger
        self._moment = moment
        self._perform = carry_out
        self._tell = moved
        self._alarmed = alarmed
        self._reported = reported
        self._notices = notices
        self._broken = broken
        self._over = over
        self._faults = dict.fromkeys(queues, "")
        """What the operator knows of policies that were disabled."""
        self._claims: dict[str, dict[int, f.NodeClaim]] = {name: {} for name in queues}
        """The claims that each queue was told of."""
        self._unplaced: dict[str, set[int]] = {name: set() for name in queues}
        """Claims where a job beyond its time still has the nodes."""
        self._reserved = {
            name: ReservationWatch(name, queue.last_s) for name, queue in queues.items()
        }
        for name, known in reserved.items():
            self._reserved[name].restore(known)
        self._given_back: dict[str, frozenset[int]] = dict.fromkeys(queues, frozenset())
        """What the calendar knows of claims for which nobody has come."""
        self._foreseen: dict[str, Mapping[int, int]] = {name: {} for name in queues}
        """Starts of waiting jobs, as they were last foreseen."""
        self._standing: set[str] = set()
        """Queues whose last event is still to come, by the clock."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def begin(self, moved: Mapping[str, tuple[Step, StoredHost]] = MappingProxyType({})) -> None:
        """Book what runs, take the claims of the calendar, and look after everything that was begun.

        Machines that have `moved` to another host begin with a step instead, which is stored with the host.
        """
        for name, queue in self.queues.items():
            self._claims[name] = queue.flow.claims()
            self._unplaced[name] = queue.flow.room.unplaced()
            with self._believed(name):
                if name in moved:
                    step, host = moved[name]
                    step(queue, self.now_s())
                    self._carry_out(queue, (host,))
                else:
                    queue.recover()
                    self._carry_out(queue)
                self._book(queue, ())
                self._claims_moved(name, {*self._claims[name], *self._ledger.bookings(name)})
        self._keep_time()

    def _compare_clocks(self, queue: BatchQueue) -> None:
        """Raise an alarm for a queue whose time stands still, because the clock is, or was, wrong."""
        ahead_s, about = queue.last_s - self.now_s(), f"clock of {queue.name}"
        if queue.name not in self._standing and ahead_s > AHEAD_S_MAX:
            self._standing.add(queue.name)
            self._reported(
                about,
                f"{queue.name}: the clock is {format_duration(ahead_s)} behind the last event of its "
                "queue. Until it has caught up, the queue counts no time and may use reserved nodes. "
                "If the clock is wrong, set it: the site follows at once. If it is right, it was "
                "ahead before: drain the nodes until then",
            )
        elif queue.name in self._standing and ahead_s <= 0:
            self._standing.remove(queue.name)
            self._reported(about, "")

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def now_s(self) -> int:
        """Return the time by the clock of the site, which ignores unconfirmed jumps."""
        return self._moment().wall_s

    def step(self, machine: str, step: Callable[[BatchQueue, int], T]) -> T:
        """Do something with a queue; what follows is carried out once it is durable.

        Raises what `step` raises by `KalendsError`: then nothing has happened. Anything else ends this
        life, and `Unavailable` is raised.
        """
        queue = self.queues[machine]
        with self._believed(machine):
            result = step(queue, self.now_s())
            self._carry_out(queue)
        return result

    @contextmanager
    def _believed(self, machine: str) -> Iterator[None]:
        """A queue that raises anything but refusals is no longer trusted."""
        try:
            yield
        except KalendsError:
            raise
        except Exception as error:
            raise self._broken(machine, error) from error

    def claims(self, machine: str) -> Mapping[int, f.NodeClaim]:
        """Return the claims of others that the queue of `machine` knows, by their bookings."""
        return self._claims[machine]

    def claims_moved(self, placed: Iterable[tuple[str, int]]) -> None:
        """These bookings of the calendar have come or gone. Raises `Unavailable` if this life is over."""
        by_machine: dict[str, set[int]] = {}
        for machine, booking in placed:
            by_machine.setdefault(machine, set()).add(booking)
        for machine, bookings in by_machine.items():
            with self._believed(machine):
                self._claims_moved(machine, bookings)

    def _claims_moved(
        self, machine: str, bookings: Collection[int], again: Collection[int] = ()
    ) -> None:
        """Tell a queue what has become of these bookings; of those in `again` also if that is nothing."""
        queue, known, now = self.queues[machine], self._claims[machine], self.now_s()
        gone: list[int] = []
        came: list[f.NodeClaim] = []
        first = {each.request or each.reservation: each.reservation for each in known.values()}
        for booking in sorted(bookings):
            before, claim = known.pop(booking, None), self._ledger.claim(machine, booking)
            if claim is not None and claim.end > now:
                claim = known[booking] = self._named(claim, first)
            else:
                claim = None
            if before == claim and booking not in again:
                continue
            if before is not None:
                gone.append(booking)
            if claim is not None:
                came.append(claim)
        queue.claims_changed(gone, came, now)
        self._carry_out(queue)
        self._look_at_reserved(queue, now)

    def _look_at_reserved(self, queue: BatchQueue, now: int) -> None:
        """Store which reservations have begun, or were given back; not before the last look again."""
        watch = self._reserved[queue.name]
        now = max(now, watch.looked_s)
        within = self._ledger.claims_within(queue.name, watch.looked_s, now + 1)
        claims = [each for each in within if each.holder]  # The owner pays nobody.
        told = watch.look(claims, now, queue.flow.terms.reserved_credits)
        if told:
            self._ledger.store_jobs(told, lambda: None)

    def _named(self, claim: f.NodeClaim, first: Mapping[str, str]) -> f.NodeClaim:
        """Return a claim under the id that its user knows: that of the `first` request, whatever changed it.

        The calendar forgets old requests, so what the queue was told of them is believed first.
        """
        if not claim.reservation:
            return claim
        request = claim.reservation
        changed = (request, *self._ledger.changed(request))
        reservation = next((first[each] for each in changed if each in first), changed[-1])
        if reservation == request:
            return claim
        return structs.replace(claim, reservation=reservation, request=request)

    def _carry_out(self, queue: BatchQueue, also: Sequence[Operation] = ()) -> None:
        """Store the facts of a step, and `also` these, all or nothing; then do what follows."""
        self._tell_fault(queue)
        self._compare_clocks(queue)
        while queue.flow.unpriced:
            job = queue.flow.table.jobs[next(iter(queue.flow.unpriced))]
            queue.record(
                f.JobPriced(job.number, tuple(self._ledger.steps(queue, job))), queue.last_s
            )
        effects = queue.take_effects()
        if not (effects or also):
            return
        for booking in effects.unplaced:
            self._unplaced[queue.name].add(booking)
            self._alarmed(f"{queue.name}: {queue.flow.room.why_unplaced}")
        deliveries = self._notices.post(queue.name, effects.milestones, self.now_s())
        over = [job for job in effects.over if not job.offered]
        for job in over:
            for hear in self._over:
                hear(queue.name, job)
        operations: list[Operation] = [*also, *(over_of(queue.name, job) for job in over)]
        operations += deliveries
        if effects.entries:
            operations.append(JobEntries(queue.name, tuple(effects.entries)))
        if are_soft(effects) and not also:
            self._ledger.store_later(operations)
        elif operations or effects.actions:
            actions = tuple(effects.actions)
            durable = partial(self._durable, queue.name, actions, deliveries)
            charged = [(queue.name, job) for job in over if job.charge]
            self._ledger.store_jobs(operations, durable, charged)
        self._book(queue, effects.occupied)
        if effects.moved:
            self._tell(queue.name, _users_of(queue, effects))
        if effects.over and self._unplaced[queue.name]:
            again, self._unplaced[queue.name] = self._unplaced[queue.name], set()
            self._claims_moved(queue.name, again, again)
        self._keep_time()

    def foreseen(self, machine: str, starts: Mapping[int, int]) -> None:
        """Take the starts of the jobs that wait, by their numbers, as they are foreseen now."""
        self._foreseen[machine] = starts
        with self._believed(machine):
            self._book(self.queues[machine], ())

    def _book(self, queue: BatchQueue, occupied: Sequence[Occupied]) -> None:
        """Show the calendar what jobs have now, and where else it may, or may not, have claims."""
        name, jobs = queue.name, queue.flow.table.jobs
        unused = frozenset(queue.flow.no_shows.given_back)
        given_back = None if self._given_back[name] == unused else unused
        self._given_back[name] = unused
        planned = partial(planned_pieces, queue, self._foreseen[name])
        users = [
            (each, jobs[each.number].principal.user if each.nodes else "") for each in occupied
        ]
        for number in self._ledger.moved(name, users, planned, given_back):
            self._alarmed(f"{name}: job {number} has nodes that are reserved for another user")

    def _tell_fault(self, queue: BatchQueue) -> None:
        if queue.fault == self._faults[queue.name]:
            return
        self._faults[queue.name] = queue.fault
        about, problem = f"policy of {queue.name}", ""
        if queue.fault:
            problem = (
                f"{queue.name}: the policy was disabled, {DEFAULT_POLICY} decides: {queue.fault}"
            )
        self._reported(about, problem)

    def _durable(
        self, machine: str, actions: Sequence[Action], deliveries: Sequence[Delivery]
    ) -> None:
        self._notices.stored(deliveries)
        if actions and not self._closed:
            self._perform(machine, actions)

    def _keep_time(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._closed:
            return
        due = [due_s for queue in self.queues.values() if (due_s := queue.next_due_s()) is not None]
        in_s = min([max(each - self.now_s(), 0) for each in due], default=LOOK_EVERY_S)
        self._timer = self._loop.call_later(min(in_s, LOOK_EVERY_S), self._advance)

    def _advance(self) -> None:
        with suppress(Unavailable):  # This life is over then: the next one has timers of its own.
            for name, queue in self.queues.items():
                with self._believed(name):
                    queue.advance(self.now_s())
                    self._carry_out(queue)
                    self._look_at_reserved(queue, self.now_s())
            self._keep_time()


def _users_of(queue: BatchQueue, effects: QueueEffects) -> dict[int, str]:
    """Return the jobs that have moved, with the user of each, those that are over last.

    Users do not hear of offers: they are jobs of theirs once they are taken.
    """
    over = {job.number: job.principal.user for job in effects.over if not job.offered}
    jobs = queue.flow.table.jobs
    there = sorted(
        number
        for number in effects.moved
        if number in jobs and number not in over and not jobs[number].offered
    )
    return {**{number: jobs[number].principal.user for number in there}, **over}
