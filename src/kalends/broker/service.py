"""A coordinator that runs: its effects are carried out, its deadlines kept, its replica kept alive.

Effects leave in turns: what calls, sites and the register have caused in one turn of the event loop
goes out together, operations to the group commit and messages to the sites' links. The coordinator
itself sends what must wait for an operation only when it is told the operation's result.

What goes wrong with one request ends with it (`fault_containment`), and a row that cannot be read is left
where it is. When the store fails, nobody knows which of the last operations were stored, and so the
coordinator's memory is worth nothing: it is dropped with everything that waited, and a new one begins
from the store, as after a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.decision_record import (
    Ask,
    Commit,
    Examine,
    Read,
    Record,
    Registered,
    Unreadable,
)
from kalends.broker.coordination.identity import Identity
from kalends.broker.coordination.transaction import Case
from kalends.broker.event_ring import EventRing
from kalends.broker.inquiries import Inquiries
from kalends.broker.metrics import Measures
from kalends.broker.planning.directory import Directory
from kalends.broker.reconciliation.audit import Auditing
from kalends.broker.reconciliation.recognition import Live, Recognition, mark_for
from kalends.broker.reconciliation.reconciler import Reconciling
from kalends.broker.reconciliation.site_memory import Memories
from kalends.broker.replica import BEAT_EVERY_S, CLOCK_AHEAD, LEASE_MS, Leases
from kalends.broker.site_link import SiteLink
from kalends.broker.site_queries import FIRST_QUERY_ID, Asking
from kalends.broker.tickets import Tickets
from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.contract.calls import Reconciled
from kalends.core.clock import LogicalClock
from kalends.core.errors import KalendsError, LostRace, OutcomeUnknown, Unavailable
from kalends.core.identifiers import request_id
from kalends.core.intervals import Moment
from kalends.serving.clock_watch import ClockWatch
from kalends.serving.clocks import moment
from kalends.serving.logs import Logger
from kalends.stores.sqlite import register, script_table
from kalends.stores.sqlite.group_commit import StoreFailed
from kalends.stores.sqlite.register_file import (
    Beat,
    BrokerStore,
    MadeGood,
    PutBack,
    Resign,
    Result,
    Retire,
    Write,
)

T = TypeVar("T")

REOPEN_EVERY_S: Final = 1.0
RESIGN_S_MAX: Final = 2.0
"""At a stop the lease is given back if the store takes that; else it runs out by itself."""

STUCK_S: Final = 1.0
"""A write takes milliseconds. After this time whoever waits is told that the store is stuck."""

LOOK_AT_STORE_EVERY_S: Final = 0.25
"""Only while something is being written."""

LOST: Final = "the broker lost its store, or stopped"

PATIENT_PHASES: Final = ("waiting", "holding")
"""Nothing that is asked of the register stands between these and their next step."""

ORPHANS_MAX: Final = 500
"""Taken over in one go: the rest follows with the next beat."""

TIMER_S_MIN: Final = 0.02
"""Deadlines are seconds long; one wake-up serves all that fall this close together."""

ALARMS_MAX: Final = 100

SOURCES_MAX: Final = 256
"""Scripts that are at hand without a look into the store: at most 8 MiB."""


READS: Final = (Read, Examine, Ask)
"""Operations that leave nothing behind that the register could forget."""


class Life(NamedTuple):
    """What lasts from an opening of the store to its failure or the stop; `name` is drawn at random."""

    name: str
    store: BrokerStore
    coordinator: Coordinator
    recognition: Recognition


class BrokerService:
    """One replica of a broker. Made, used and stopped on one event loop.

    `open_store` opens the store; `replica` is this replica's name on it; `coords` are where sites
    may inquire.
    """

    def __init__(
        self,
        *,
        replica: str,
        coords: tuple[str, ...],
        open_store: Callable[[], Coroutine[None, None, BrokerStore]],
        directory: Directory,
        open_per_user_max: int,
        logger: Logger,
        measures: Measures,
    ) -> None:
        self.directory = directory
        self.logger = logger
        self.links: Mapping[str, SiteLink] = {}
        self.measures = measures
        self.logical_clock = LogicalClock()
        self.leases = Leases()
        self.clock_watch = ClockWatch(moment, self._doubted)
        self.events = EventRing(0)
        self.asking = Asking(self._send)
        self.inquiries = Inquiries(self._inquire, time.monotonic)
        self.alarms: list[str] = []
        self.memories = Memories()
        self.auditing = Auditing(
            lambda *page: self.store.read(register.between, *page), lambda: self.store.secret
        )
        self.reconciling = Reconciling(
            lambda *page: self.store.read(register.between, *page),
            {name: site.url for name, site in directory.sites.items()},
            coords,
            lambda: self.store.secret,
        )
        self._reconciled = asyncio.Event()
        self._position = 0
        """As many writes have been given to the store in this life."""
        self._durable = 0
        """As many of them are durable."""
        self._marks: dict[str, m.Mark] = {}
        self.draining = False
        self.failure = ""
        self._sources: dict[str, str] = {}
        self._replica = replica
        self._coords = coords
        self._open_store = open_store
        self._open_per_user_max = open_per_user_max
        self._life: Life | None = None
        self._failed_store: BrokerStore | None = None
        self.tickets = Tickets()
        self._stirred = False
        self._timer: asyncio.TimerHandle | None = None
        self._store_timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0
        self._changed = asyncio.Event()
        """Set when the heart should look: the store has failed, or all sites are connected."""
        self._took_over = False
        """In this life what others have left behind has been looked for."""
        self._quiet: asyncio.Event | None = None
        self._heart: asyncio.Task[None] | None = None
        self._beaten_s = 0.0
        """When the lease was renewed last (monotonic)."""
        self._told_unreadable: set[str] = set()
        self._stopping = False

    # Life

    async def start(self) -> None:
        """Begin from the store; raises what its opening raises."""
        await self._begin()
        self._start_heart()

    async def stop(self, wait_s: float) -> None:
        """Finish what is open within `wait_s`, give the lease back, and close the store."""
        if self._life is not None:
            self._life.coordinator.calls.draining = True
            await self._wait_until_quiet(wait_s)
        self._stopping = True
        if self._store_timer is not None:
            self._store_timer.cancel()
        if self._heart is not None:
            self._heart.cancel()
            await asyncio.gather(self._heart, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
        life, self._life = self._life, None
        self._give_up_waiting(LOST, self._unavailable())
        if life is not None:
            try:
                async with asyncio.timeout(RESIGN_S_MAX):
                    await life.store.writer.run((Resign(life.coordinator.identity.owner),))
            except (StoreFailed, TimeoutError) as error:
                self.logger.error("lease_not_given_back", reason=str(error))
            await life.store.close()
        elif self._failed_store is not None:
            await self._failed_store.close()

    async def _begin(self) -> None:
        store = await self._open_store()
        owner = f"{self._replica}:{store.epoch}"
        name = secrets.token_hex(16)
        try:
            bound = store.read(register.clock_bound)
            now = moment()
            bound = max(bound, self.logical_clock.value)
            self.logical_clock = LogicalClock.resumed(bound, now.wall_ms)
            begins = (Retire(self._replica, owner), self._beat(owner, now), Live(name, 0))
            await store.writer.run(begins)
            self.leases.look(store.read(register.beats), now.monotonic_ms)
            recognition = Recognition(
                store.secret,
                self.directory.sites,
                lambda life: store.read(register.position_of, life),
                put_back=store.read(register.is_put_back),
                monotonic_ms=now.monotonic_ms,
            )
        except BaseException:
            # Also when this is cancelled: whoever opens a store that does not begin closes it.
            await store.close()
            raise
        self._beaten_s = time.monotonic()
        self._position = self._durable = 0
        if not self.events.last:
            self.events.last = self.logical_clock.value
        coordinator = Coordinator(
            Identity(self._replica, owner, self._coords, store.secret),
            self.directory,
            self.logical_clock,
            new_rid=lambda now: request_id(now.wall_ms, secrets.randbits(74)),
            jitter=random.random,
            open_per_user_max=self._open_per_user_max,
            owner_alive=self.leases.alive,
            scripts=lambda script: (
                self._sources.get(script) or store.read(script_table.source_of, script)
            ),
            certain=lambda: recognition.is_certain(moment().monotonic_ms),
        )
        coordinator.calls.draining = self.draining
        self._life = Life(name, store, coordinator, recognition)
        self.failure = ""
        self._took_over = False
        self.logger.info("broker_begins", owner=owner)

    def _beat(self, owner: str, now: Moment) -> Beat:
        ahead = max(self.logical_clock.value, now.wall_ms) + CLOCK_AHEAD
        return Beat(owner, ahead)

    def _start_heart(self) -> None:
        self._heart = asyncio.create_task(self._beat_for_ever())
        self._heart.add_done_callback(self._heart_stopped)

    def _heart_stopped(self, heart: asyncio.Task[None]) -> None:
        """It never ends by itself; should it do so all the same, another one takes its place."""
        if not self._stopping:
            why = "" if heart.cancelled() else f": {heart.exception()!r}"
            self.alarm(f"the heart has stopped{why}")
            self._start_heart()

    async def _beat_for_ever(self) -> None:
        """Renew the lease, take over from the dead, and begin anew after a failure of the store."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), BEAT_EVERY_S)
            self._changed.clear()
            try:
                if self._life is None:
                    await self._begin_anew()
                else:
                    await self._beat_once(self._life)
            except Exception as error:
                # The boundary of one beat: whatever it met, the next one comes.
                self.logger.error("beat_failed", exc_info=error)
                self.alarm(f"a beat of the heart failed: {error!r}")

    async def _beat_once(self, life: Life) -> None:
        """Renew the lease, and take over what nobody works on.

        The first time is when all sites have come, or some seconds after the start: a request that is
        taken over sooner would find no site that it can ask, and fail; or it was decided, and the register
        has forgotten it.
        """
        owner = life.coordinator.identity.owner
        now = moment()
        self.clock_watch.now()
        try:
            await life.store.writer.run((self._beat(owner, now), *self.memories.to_store()))
            self.leases.look(life.store.read(register.beats), now.monotonic_ms)
            if self._follow_replicas(life) or not life.recognition.is_certain(now.monotonic_ms):
                self._beaten_s = time.monotonic()
                self.reconciling.beat()
                self.stir()
                return
            alive = self.leases.all_alive()
            orphans = life.store.read(register.orphans, (owner, *alive), ORPHANS_MAX)
            attended = life.coordinator.containment.attended() | self._told_unreadable
            orphans += life.store.read(register.unattended, owner, attended, ORPHANS_MAX)
        except Unavailable as error:
            self._fail(error)
            return
        self._beaten_s = time.monotonic()
        self._took_over = True
        self.reconciling.beat()
        self.stir()
        to_adopt = [row for row in orphans if isinstance(row, Record)]
        if to_adopt:
            self.logger.info("taken_over", count=len(to_adopt))
        for record in to_adopt:
            self._adopt(record)
        self._tell_unreadable(row for row in orphans if isinstance(row, Unreadable))

    def _follow_replicas(self, life: Life) -> bool:
        """Whether another replica has found that the register was put back: then this one begins anew."""
        put_back = life.store.read(register.is_put_back)
        if put_back and not life.recognition.put_back:
            self._fail(_put_back())
            return True
        life.recognition.put_back = put_back
        return False

    def _adopt(self, record: Record) -> None:
        if self._life is not None:
            coordinator = self._life.coordinator
            self.step(lambda: coordinator.attempts.take_over(record, moment()))

    def _tell_unreadable(self, rows: Iterable[Unreadable]) -> None:
        """Say once of each row that cannot be read that nobody works on it."""
        for row in rows:
            if row.rid not in self._told_unreadable:
                self._told_unreadable.add(row.rid)
                self.alarm(f"request {row.rid} is left as it is: {row.reason}")

    async def _begin_anew(self) -> None:
        failed, self._failed_store = self._failed_store, None
        if failed is not None:
            await failed.close()
        try:
            await self._begin()
        except Exception as error:
            # The boundary of one try: the next one may succeed.
            self.failure = error.detail if isinstance(error, KalendsError) else repr(error)
            self.logger.error("store_not_opened", reason=str(error))
            await asyncio.sleep(REOPEN_EVERY_S)
            self._changed.set()

    def _fail(self, error: Exception) -> None:
        """What this replica remembers may not be what is stored: forget it all, and begin anew."""
        life, self._life = self._life, None
        if life is None:
            return
        self.failure = str(error)
        self.logger.error("broker_begins_anew", exc_info=error)
        self._failed_store = life.store
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._give_up_waiting(LOST, self._unavailable())
        for link in self.links.values():
            link.drop()
        self._changed.set()

    def _give_up_waiting(
        self, why: str, error: KalendsError, *, patient: Collection[int] = ()
    ) -> None:
        """Nobody but the `patient` can be answered now; what was asked may have happened, or not."""
        self.tickets.fail_all(partial(_unknown, why), but=patient)
        self.inquiries.fail(error)

    def _unavailable(self) -> Unavailable:
        return Unavailable(
            "this broker's store cannot be used now",
            where="store",
            remedy="try again in a moment, or ask another replica",
            retry_after_s=1.0,
        )

    # For the calls of users

    @property
    def coordinator(self) -> Coordinator:
        """Raises `Unavailable` while the store cannot be used."""
        if self._life is None:
            raise self._unavailable()
        return self._life.coordinator

    @property
    def store(self) -> BrokerStore:
        """Raises `Unavailable` while the store cannot be used."""
        if self._life is None:
            raise self._unavailable()
        return self._life.store

    @property
    def cases(self) -> Mapping[str, Case]:
        return self._life.coordinator.cases if self._life is not None else {}

    def trouble(self) -> str:
        """What keeps this replica from doing its work, or ""."""
        if self.failure:
            return self.failure
        if (stuck_s := self._stuck_s()) >= STUCK_S:
            return _stuck(stuck_s).detail
        if self._life is not None and (unsettled := self._life.recognition.unsettled()):
            return f"{_put_back().detail}; not compared yet: {', '.join(unsettled)}"
        silent_s = time.monotonic() - self._beaten_s
        if silent_s * 1000 >= LEASE_MS:
            return f"the lease of this replica was not renewed for {silent_s:.0f} s"
        return ""

    def drain(self, on: bool) -> None:
        """Take no new requests, or take them again; until the next start."""
        self.coordinator.calls.draining = self.draining = on

    def remember_source(self, script: str, source: str) -> None:
        """Keep `source` at hand for the request that is about to use it, and for the next ones."""
        self._sources.pop(script, None)
        self._sources[script] = source
        if len(self._sources) > SOURCES_MAX:
            del self._sources[next(iter(self._sources))]

    async def settle(self) -> None:
        """Return when everything up to now is durable; raises `Unavailable` and `OutcomeUnknown`."""
        self._carry_out()
        await self.stored(())

    async def stored(self, writes: Sequence[Write]) -> Sequence[Result]:
        """The results of `writes` once they are durable; raises `Unavailable` and `OutcomeUnknown`."""
        self.check()
        return await self._written(writes)

    async def _written(self, writes: Sequence[Write]) -> Sequence[Result]:
        """As `stored`, also while the register that was put back is not compared yet."""
        store = self.store
        self._check_not_stuck()
        found: list[Result] = []
        with self.tickets.new() as ticket:

            def done(results: Sequence[Result]) -> None:
                found.extend(results)
                ticket.end()

            store.writer.submit(writes, done, ticket.fail)
            self._watch_store()
            await ticket.answer()
        return found

    def stir(self) -> None:
        """The coordinator was given something: carry out its effects at the end of this turn."""
        if not self._stirred:
            self._stirred = True
            asyncio.get_running_loop().call_soon(self._carry_out)

    def asked(self, call: Callable[[Coordinator], T]) -> T:
        """Give the coordinator what a caller asks; raises what it raises, and `Unavailable`.

        While the store is stuck nothing is begun: nobody could be told what becomes of it.
        """
        self.check()
        coordinator = self.coordinator
        answer = coordinator.containment.asked(lambda: call(coordinator))
        self.stir()
        return answer

    def step(self, call: Callable[[], object], *, goes_on: bool = False) -> None:
        """Give the coordinator something that no caller waits for; see `contained`."""
        life = self._life
        if life is None:
            return
        try:
            life.coordinator.containment.contained(call, goes_on=goes_on)
        except Exception as error:
            # The boundary: nobody knows whose fault it was, so nothing it knows can be trusted.
            self._fail(error)
        else:
            self.stir()

    # Effects

    def _carry_out(self) -> None:
        self._stirred = False
        life = self._life
        if life is None:
            return
        effects = life.coordinator.take_effects()
        sends, mending = self.reconciling.take()
        sends += self.auditing.take()
        operations: list[Write] = [*effects.operations, *mending]
        if any(isinstance(each, Commit) for each in operations):
            # A commit rests on what sites have said: the register knows how far they were then.
            operations = [*self.memories.to_store(), *operations]
        if operations:
            if not all(isinstance(each, READS) for each in operations):
                self._position += 1
                operations = [Live(life.name, self._position), *operations]
            registered = partial(self._registered, self._position)
            life.store.writer.submit(operations, registered, self._fail)
            self._watch_store()
        for site, message in sends:
            self._send(site, message)
        for send in effects.sends:
            self._say(send.to, send.message)
        for answer in effects.answers:
            self.tickets.end(answer.ticket, answer.view)
        for ticket in effects.unknown:
            self.tickets.fail(ticket, _unknown("the broker has met a fault of its own"))
        if effects.events:
            self.events.publish(effects.events)
            for happened in effects.events:
                self.measures.happened.labels(happened.event.kind).inc()
        for alarm in effects.alarms:
            self.alarm(alarm)
        for code in effects.runs:
            self.measures.agent_runs.labels(code).inc()
        self._keep_time(life.coordinator)
        if self._quiet is not None and self._is_quiet():
            self._quiet.set()

    def _stuck_s(self) -> float:
        return self._life.store.writer.stuck_s if self._life is not None else 0.0

    def check(self) -> None:
        """Raises `Unavailable` while nothing can be begun, or ended, that the register is to know of."""
        self._check_not_stuck()
        if self._life is not None and self._life.recognition.put_back:
            raise _put_back()

    def _check_not_stuck(self) -> None:
        if (stuck_s := self._stuck_s()) >= STUCK_S:
            raise _stuck(stuck_s)

    def check_whole(self) -> None:
        """Raises `Unavailable` while what is not in the register may be what it has forgotten."""
        if self._life is None or self._life.recognition.is_certain(moment().monotonic_ms):
            return
        raise _put_back() if self._life.recognition.put_back else _not_certain()

    def _watch_store(self) -> None:
        if self._store_timer is None:
            loop = asyncio.get_running_loop()
            self._store_timer = loop.call_later(LOOK_AT_STORE_EVERY_S, self._look_at_store)

    def _look_at_store(self) -> None:
        """Whoever waits for a write that does not come is told so; the write itself goes on waiting."""
        self._store_timer = None
        if self._life is None or self._life.store.writer.idle:
            return
        if (stuck_s := self._stuck_s()) >= STUCK_S:
            why = _stuck(stuck_s)
            self._give_up_waiting(why.detail, why, patient=self._patient())
        self._watch_store()

    def _patient(self) -> set[int]:
        """Tickets of those who wait for something else than the register."""
        waiting = (case for case in self.cases.values() if case.phase in PATIENT_PHASES)
        return {ticket for case in waiting for ticket in case.tickets}

    def _say(self, to: str, message: m.Message) -> None:
        try:
            if to in self.links:
                self.links[to].send(message)
            else:
                self.inquiries.answer(to, message)
        except Exception as error:
            # The boundary of one message: it counts as lost, and what waits behind it leaves.
            self.alarm(f"{type(message).__name__} for {to} cannot be sent: {error!r}")

    def _doubted(self, doubt: str) -> None:
        if doubt:
            self.alarm(doubt)
        else:
            self.logger.info("clock_agrees")

    def alarm(self, alarm: str) -> None:
        self.logger.error("alarm", detail=alarm)
        self.alarms = [*self.alarms[-ALARMS_MAX + 1 :], alarm]
        self.measures.alarms.inc()

    def _registered(self, position: int, results: Sequence[Result]) -> None:
        life = self._life
        if life is None:
            return
        self._durable = position
        now = moment()
        mine = [result for result in results if isinstance(result, Registered)]
        for result in mine:
            self.step(partial(life.coordinator.registered, result, now))
            if result.unreadable is not None:
                self._tell_unreadable((result.unreadable,))
        self._carry_out()
        for result in mine:
            if not isinstance(result.operation, Ask):
                continue
            if result.unreadable is not None:
                self.inquiries.refuse(result.operation.reply_to, result.unreadable.error())
            else:
                self.inquiries.settled(result.operation.reply_to)

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
        in_s = max((due_ms - moment().monotonic_ms) / 1000, TIMER_S_MIN)
        self._timer = asyncio.get_running_loop().call_later(in_s, self._advance)

    def _advance(self) -> None:
        self._timer = None
        if self._life is not None:
            coordinator = self._life.coordinator
            self.step(lambda: coordinator.advance(moment()), goes_on=True)

    def _is_quiet(self) -> bool:
        return all(case.phase in ("held", "waiting") for case in self.cases.values())

    async def _wait_until_quiet(self, wait_s: float) -> None:
        self._carry_out()
        self._quiet = asyncio.Event()
        if self._is_quiet():
            return
        try:
            await asyncio.wait_for(self._quiet.wait(), wait_s)
        except TimeoutError:
            self.logger.warning("stopped_with_open_requests", count=len(self.cases))

    # Links (`kalends.broker.site_link.LinkUser`)

    def site_said(self, site: str, messages: Sequence[m.Message]) -> None:
        """Messages of a site; what belongs to nobody any more is let go."""
        now = moment()
        for message in messages:
            if isinstance(message, m.Hello) and message.site != site:
                self._complain(site, "says that it is another site", now)
            elif isinstance(message, m.View) and message.query_id >= FIRST_QUERY_ID:
                if complaint := self.asking.answered(site, message):
                    self._complain(site, complaint, now)
            elif isinstance(message, m.Known):
                self._known(site, message, now)
            elif isinstance(message, m.Compared | m.Relocked):
                self._compared(site, message, now)
                self.stir()
            elif self._life is not None:
                self._take(self._life.coordinator, site, message, now)
            elif isinstance(message, m.Hello):
                self.directory.greet(message)

    def _take(self, coordinator: Coordinator, site: str, message: m.Message, now: Moment) -> None:
        hello = isinstance(message, m.Hello)
        self.step(lambda: coordinator.receive(site, message, now), goes_on=hello)

    def _complain(self, site: str, complaint: str, now: Moment) -> None:
        if self._life is not None:
            self._life.coordinator.hearing.complain(site, complaint, now)
            self.stir()

    def _known(self, site: str, known: m.Known, now: Moment) -> None:
        """Compare the site's past with what is remembered of it, and ours with what it remembers."""
        life = self._life
        if life is None:
            return
        if known.behind:
            self.alarm(f"{site} may have forgotten promises: what it has is compared")
        try:
            includes_all = life.recognition.hear(site, known.marks)
        except Unavailable as error:
            self._fail(error)
            return
        if not includes_all and not life.recognition.put_back:
            self.alarm(
                f"this broker's register was put back to an earlier state: {site} was told more than it"
                " knows. Nothing new is taken until it has been compared with all sites"
            )
            life.store.writer.submit((PutBack(),), lambda _: None, self._fail)
            self._fail(_put_back())
            return
        if known.forgotten:
            self.step(lambda: life.coordinator.site_forgot(site, now))
        if known.behind or known.forgotten or life.recognition.put_back:
            self._begin_comparison(site, again=True)
            self.stir()
        if not self._took_over and life.recognition.is_certain(now.monotonic_ms):
            self._changed.set()

    def _compared(self, site: str, message: m.Compared | m.Relocked, now: Moment) -> None:
        if self._life is None:
            return
        try:
            if isinstance(message, m.Compared) and self.auditing.running(site):
                self.auditing.receive(site, message, now.wall_ms)
                self._reconciled.set()
                return
            self.reconciling.receive(site, message, now.wall_ms)
        except Exception as error:
            # The boundary of one comparison: the next one begins anew.
            self.alarm(f"the comparison with {site} broke off: {error!r}")
            self.reconciling.lost(site)
            self.auditing.lost(site)
            self._reconciled.set()
            return
        if (report := self.reconciling.reports.get(site)) and not self.reconciling.running(site):
            for lost in report.lost:
                self.alarm(
                    f"{lost.id} of {lost.user} cannot be made good at {site}:"
                    f" {', '.join(lost.blockers)}"
                )
            self._life.recognition.settle(site)
            if self._life.recognition.put_back and not self._life.recognition.unsettled():
                write = _made_good(self._life.recognition)
                self._life.store.writer.submit((write,), self._go_on, self._fail)
            self._reconciled.set()

    def _go_on(self, results: Sequence[Result]) -> None:
        """The register was put back, and has been made good."""
        if self._life is None:
            return
        self._life.recognition.put_back = False
        if isinstance(results[0], int):
            if results[0]:
                self.alarm(f"{results[0]} requests that were open when it was put back have failed")
            self.logger.info("register_made_good", failed=results[0])
            # A site that was settled early may lack what a later one has reminded us of: that is named.
            for site in (name for name, site in self.directory.sites.items() if site.up):
                self._begin_comparison(site)
            self.stir()
        self._changed.set()

    def _begin_comparison(self, site: str, *, again: bool = False) -> None:
        """What differs is mended: whoever only looks has nothing to look at."""
        self.auditing.lost(site)
        self.reconciling.begin(site, again=again)

    async def differences(self, wait_s: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """In what the register and the sites differ, and the sites that were not looked at within `wait_s`.

        Nothing is mended: that is `reconcile`'s.
        """
        reached = [name for name, site in self.directory.sites.items() if site.up]
        reached = [name for name in reached if not self.reconciling.running(name)]
        for site in reached:
            self.auditing.begin(site)
        self.stir()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while any(map(self.auditing.running, reached)):
                    self._reconciled.clear()
                    await self._reconciled.wait()
        found = {name: self.auditing.differences.get(name) for name in reached}
        differences = tuple(each for of_one in found.values() for each in of_one or ())
        return differences, tuple(name for name in self.directory.sites if found.get(name) is None)

    async def reconcile(self, wait_s: float, go_on: bool) -> Reconciled:
        """Compare with all sites that are connected; what has ended within `wait_s`, and how.

        `go_on`: a register that was put back takes new requests again without the sites that are missing.
        """
        reached = [name for name, site in self.directory.sites.items() if site.up]
        for site in reached:
            self._begin_comparison(site)
        self.stir()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._until_compared(reached)
                if self._life is not None and self._life.recognition.put_back:
                    # That it is made good may be on its way to the disk; then all is compared once more.
                    await self._written(())
                    await self._until_compared(reached)
        reports = dict(self.reconciling.reports)
        life = self._life
        if go_on and life is not None and life.recognition.put_back:
            self._go_on(await self._written((_made_good(life.recognition),)))
        return Reconciled(
            sites=tuple(reports[site] for site in reached if site in reports),
            unreached=tuple(site for site in self.directory.sites if site not in reports),
            recovering=self._life is not None and self._life.recognition.put_back,
        )

    async def _until_compared(self, sites: Sequence[str]) -> None:
        while any(map(self.reconciling.running, sites)):
            self._reconciled.clear()
            await self._reconciled.wait()

    def welcome(self, site: str) -> m.Welcome:
        store = self.store
        return m.Welcome(
            register=store.register,
            secret=proofs.site_key(store.secret, site),
            remembered=self.memories.of(site, store.read(register.memory_of, site)),
        )

    def site_at(self, site: str, mark: m.Mark) -> None:
        self.memories.at(site, mark)

    def site_lost(self, site: str, reason: str) -> None:
        life = self._life
        if life is not None:
            self.step(lambda: life.coordinator.site_lost(site, reason), goes_on=True)
        else:
            self.directory.lose(site, reason)
        self.asking.lost(site)
        self.clock_watch.lost(site)
        self.reconciling.lost(site)
        self.auditing.lost(site)
        self._reconciled.set()

    def heard_clocks(self, site: str, logical: int, wall_ms: int) -> None:
        self.logical_clock.merge(logical, moment().wall_ms)
        if wall_ms:
            self.clock_watch.heard(site, wall_ms)

    def mark(self, site: str) -> m.Mark | None:
        life = self._life
        if life is None:
            return None
        known = self._marks.get(site)
        if known is None or (known.life, known.position) != (life.name, self._durable):
            known = mark_for(life.store.secret, site, life.name, self._durable)
            self._marks[site] = known
        return known

    def clocks(self) -> tuple[int, int]:
        return self.logical_clock.value, moment().wall_ms

    def _send(self, site: str, message: m.Message) -> None:
        if site in self.links:
            self.links[site].send(message)

    def _inquire(self, reply_to: str, inquire: m.Inquire) -> None:
        coordinator = self.coordinator
        self.step(lambda: coordinator.receive(reply_to, inquire, moment()))


def _unknown(why: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{why}, while this was being decided", remedy="ask again by the same key"
    )


def _stuck(stuck_s: float) -> Unavailable:
    return Unavailable(
        f"the broker's store has not taken a write for {stuck_s:.1f} s: another process keeps it locked,"
        " or its disk does not answer",
        where="store",
        remedy="try again in a moment; it goes on by itself once the store is free",
        retry_after_s=1.0,
    )


def _put_back() -> Unavailable:
    return Unavailable(
        "this broker's register was put back to an earlier state, and is compared with its sites first",
        where="store",
        remedy="try again in a moment; the operator of the broker sees in /healthz what is missing",
        retry_after_s=5.0,
    )


def _not_certain() -> Unavailable:
    return Unavailable(
        "this broker was just started, and its sites have not said yet whether it has forgotten this",
        where="store",
        remedy="try again in some seconds",
        retry_after_s=1.0,
    )


def _made_good(recognition: Recognition) -> MadeGood:
    problem = LostRace(
        "the broker's register was put back to an earlier state while this was open",
        remedy="ask again with a new key",
    ).to_problem()
    return MadeGood(tuple(recognition.accounted()), problem)
