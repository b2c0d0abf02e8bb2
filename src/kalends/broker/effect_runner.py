"""Carries out the effects of the coordinator, and gives it the answers of the register and the time.

Effects leave in turns: what calls, sites and the register have caused in one turn of the event loop
goes out together, operations to the group commit and messages to the sites' links. The coordinator
itself sends what must wait for an operation only when it is told the operation's result.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from functools import partial
from typing import Any, Final, TypeVar

from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.effects import CoordinatorEffects, Errand
from kalends.broker.coordination.phases import PATIENT_PHASES, QUIET_PHASES
from kalends.broker.coordination.record.decision_record import (
    Ask,
    Assemble,
    Commit,
    CommitSeries,
    Examine,
    GiveUp,
    Operation,
    Permit,
    Read,
    Registered,
    Telling,
    Unreadable,
)
from kalends.broker.desk.event_ring import EventRing
from kalends.broker.desk.tickets import Tickets
from kalends.broker.metrics import Measures
from kalends.broker.reconciliation.recognition import Live, mark_for
from kalends.broker.reconciliation.site_memory import Memories
from kalends.broker.register.writes import Result, Write
from kalends.broker.replica import store_errors
from kalends.broker.replica.replica import Incarnation, Replica
from kalends.broker.sites.comparisons import Comparisons
from kalends.broker.sites.inquiries import Inquiries
from kalends.broker.sites.site_link import SiteLink
from kalends.contract import messages as m
from kalends.core.errors import KalendsError

T = TypeVar("T")

LOOK_AT_STORE_EVERY_S: Final = 0.25
"""Only while something is being written."""

TIMER_S_MIN: Final = 0.02
"""Deadlines are seconds long; one wake-up serves all that fall this close together."""

READS: Final = (Read, Examine, Ask)
"""Operations that leave nothing behind that the register could forget."""


Carriers = Mapping[type, Callable[[Any], Awaitable[object]]]
"""The functions that answer the questions of wings, by the type of the question."""


class EffectRunner:
    """Steps of the coordinator go in, effects come out; `tell_unreadable` hears of bad rows."""

    def __init__(
        self,
        replica: Replica,
        links: Callable[[], Mapping[str, SiteLink]],
        memories: Memories,
        comparisons: Comparisons,
        inquiries: Inquiries,
        tickets: Tickets,
        events: EventRing,
        measures: Measures,
        carriers: Carriers,
        noticed: Callable[[], None],
        *,
        alarm: Callable[[str], None],
        tell_unreadable: Callable[[Iterable[Unreadable]], None],
    ) -> None:
        self._replica = replica
        self._links = links
        self._memories = memories
        self._comparisons = comparisons
        self._inquiries = inquiries
        self._tickets = tickets
        self._events = events
        self._measures = measures
        self._carriers = carriers
        self._noticed = noticed
        self._alarm = alarm
        self._tell_unreadable = tell_unreadable
        self._position = 0
        """As many writes have been given to the store in this incarnation."""
        self._durable = 0
        """As many of them are durable."""
        self._marks: dict[str, m.Mark] = {}
        self._stirred = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0
        self._store_timer: asyncio.TimerHandle | None = None
        self._quiet: asyncio.Event | None = None
        self._errands: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """An incarnation begins."""
        self._position = self._durable = 0

    def fail(self) -> None:
        """End the incarnation: drop all timers, and answer no more callers."""
        self.stop_timer()
        self.give_up_waiting(store_errors.LOST, store_errors.unusable())

    def stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def stop_watching(self) -> None:
        if self._store_timer is not None:
            self._store_timer.cancel()

    # Steps

    def asked(self, call: Callable[[Coordinator], T]) -> T:
        """Give the coordinator what a caller asks; raises what it raises, and `Unavailable`.

        While the store is stuck nothing is begun: nobody could be told what becomes of it.
        """
        self._replica.check()
        coordinator = self._replica.coordinator
        answer = coordinator.containment.asked(lambda: call(coordinator))
        self.stir()
        return answer

    def step(self, call: Callable[[], object], *, goes_on: bool = False) -> None:
        """Give the coordinator something that no caller waits for; see `FaultContainment.contained`."""
        current = self._replica.current
        if current is None:
            return
        try:
            current.coordinator.containment.contained(call, goes_on=goes_on)
        except Exception as error:
            # The boundary: nobody knows whose fault it was, so nothing it knows can be trusted.
            self._replica.fail(error)
        else:
            self.stir()

    def stir(self) -> None:
        """The coordinator was given something: carry out its effects at the end of this turn."""
        if not self._stirred:
            self._stirred = True
            asyncio.get_running_loop().call_soon(self.carry_out)

    # Effects

    def carry_out(self) -> None:
        self._stirred = False
        current = self._replica.current
        if current is None:
            return
        effects = current.coordinator.take_effects()
        sends, mending = self._comparisons.take()
        self._write(current, [*effects.operations, *mending])
        for site, message in sends:
            self.send(site, message)
        for send in effects.sends:
            self._say(send.to, send.message)
        self._tell(effects, current)
        self._keep_time(current.coordinator)
        if self._quiet is not None and self._is_quiet():
            self._quiet.set()

    def _write(self, current: Incarnation, operations: list[Write]) -> None:
        if any(isinstance(each, Commit | CommitSeries) for each in operations):
            # A commit rests on what sites have said: the register knows how far they were then.
            operations = [*self._memories.to_store(), *operations]
        if operations:
            if not all(isinstance(each, READS) for each in operations):
                self._position += 1
                operations = [Live(current.name, self._position), *operations]
            registered = partial(self._registered, self._position)
            current.store.writer.submit(operations, registered, self._replica.fail)
            self._watch_store()

    def _tell(self, effects: CoordinatorEffects, current: Incarnation) -> None:
        """Answer callers, publish events, raise alarms, and count."""
        for answer in effects.answers:
            self._tickets.end(answer.ticket, answer.view)
        for ticket in effects.unknown:
            error = store_errors.unknown("internal fault of the broker")
            self._tickets.fail(ticket, error)
        if effects.events:
            self._events.publish(effects.events)
            for happened in effects.events:
                self._measures.happened.labels(happened.event.kind).inc()
        for alarm in effects.alarms:
            self._alarm(alarm)
        for errand in effects.errands:
            task = asyncio.create_task(self._carry(errand, current))
            self._errands.add(task)
            task.add_done_callback(self._errands.discard)
        for code in effects.runs:
            self._measures.agent_runs.labels(code).inc()

    async def _carry(self, errand: Errand, incarnation: Incarnation) -> None:
        """Ask the outside; the coordinator has stopped waiting for it when it takes too long."""
        answer = await self._carriers[type(errand.question)](errand.question)
        if self._replica.current is incarnation:
            self.step(lambda: errand.answered(answer, self._replica.moment()))

    def send(self, site: str, message: m.Message) -> None:
        links = self._links()
        if site in links:
            links[site].send(message)

    def _say(self, to: str, message: m.Message) -> None:
        try:
            if to in self._links():
                self.send(to, message)
            else:
                self._inquiries.answer(to, message)
        except Exception as error:
            # The boundary of one message: it counts as lost, and what waits behind it leaves.
            self._alarm(f"{type(message).__name__} for {to} cannot be sent: {error!r}")

    # The register

    async def stored(self, writes: Sequence[Write]) -> Sequence[Result]:
        """The results of `writes` once they are durable; raises `Unavailable` and `OutcomeUnknown`."""
        self._replica.check()
        return await self.written(writes)

    async def written(self, writes: Sequence[Write]) -> Sequence[Result]:
        """As `stored`, also while a restored register is not compared yet."""
        store = self._replica.store
        self._replica.check_not_stuck()
        found: list[Result] = []
        with self._tickets.new() as ticket:

            def done(results: Sequence[Result]) -> None:
                found.extend(results)
                ticket.end()

            store.writer.submit(writes, done, ticket.fail)
            self._watch_store()
            await ticket.answer()
        return found

    def mark(self, site: str) -> m.Mark | None:
        """Return the register's position for `site`; None without a store."""
        current = self._replica.current
        if current is None:
            return None
        known = self._marks.get(site)
        if known is None or (known.life, known.position) != (current.name, self._durable):
            known = mark_for(current.store.secret, site, current.name, self._durable)
            self._marks[site] = known
        return known

    def _registered(self, position: int, results: Sequence[Result]) -> None:
        current = self._replica.current
        if current is None:
            return
        self._durable = position
        now = self._replica.moment()
        mine = [result for result in results if isinstance(result, Registered)]
        for result in mine:
            self.step(partial(current.coordinator.registered, result, now))
            if result.unreadable is not None:
                self._tell_unreadable((result.unreadable,))
        self.carry_out()
        if any(_brings_notices(each.operation) for each in mine):
            self._noticed()
        for result in mine:
            if not isinstance(result.operation, Ask | Permit | Assemble | GiveUp):
                continue
            if result.unreadable is not None and result.operation.proved:
                self._inquiries.refuse(result.operation.reply_to, result.unreadable.error())
            else:
                self._inquiries.settled(result.operation.reply_to, proved=result.operation.proved)

    def _watch_store(self) -> None:
        if self._store_timer is None:
            loop = asyncio.get_running_loop()
            self._store_timer = loop.call_later(LOOK_AT_STORE_EVERY_S, self._look_at_store)

    def _look_at_store(self) -> None:
        """Tell callers whose write does not come; the write itself goes on waiting."""
        self._store_timer = None
        current = self._replica.current
        if current is None or current.store.writer.idle:
            return
        if why := self._replica.stuck():
            self.give_up_waiting(why.detail, why, patient=self._patient())
        self._watch_store()

    def _patient(self) -> set[int]:
        """Tickets of those who wait for something else than the register."""
        waiting = (case for case in self._replica.cases.values() if case.phase in PATIENT_PHASES)
        return {ticket for case in waiting for ticket in case.tickets}

    def give_up_waiting(
        self, why: str, error: KalendsError, *, patient: Collection[int] = ()
    ) -> None:
        """Nobody but the `patient` can be answered now; what was asked may have happened, or not."""
        self._tickets.fail_all(partial(store_errors.unknown, why), but=patient)
        self._inquiries.fail(error)

    # Time

    def _keep_time(self, coordinator: Coordinator) -> None:
        """One timer, for the next deadline of the coordinator."""
        due_ms = coordinator.next_deadline_ms()
        if due_ms is None:
            return
        if self._timer is not None:
            if self._timer_due_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_due_ms = due_ms
        in_s = max((due_ms - self._replica.moment().monotonic_ms) / 1000, TIMER_S_MIN)
        self._timer = asyncio.get_running_loop().call_later(in_s, self._advance)

    def _advance(self) -> None:
        self._timer = None
        current = self._replica.current
        if current is not None:
            coordinator = current.coordinator
            self.step(lambda: coordinator.advance(self._replica.moment()), goes_on=True)

    def _is_quiet(self) -> bool:
        return all(case.phase in QUIET_PHASES for case in self._replica.cases.values())

    async def wait_until_quiet(self, wait_s: float) -> bool:
        """Whether nothing but holds and waits is left within `wait_s`."""
        self.carry_out()
        self._quiet = asyncio.Event()
        if self._is_quiet():
            return True
        try:
            await asyncio.wait_for(self._quiet.wait(), wait_s)
        except TimeoutError:
            return False
        return True


def _brings_notices(operation: Operation) -> bool:
    if isinstance(operation, CommitSeries):
        return any(each.notices for each in operation.commits)
    return isinstance(operation, Telling) and bool(operation.notices)
