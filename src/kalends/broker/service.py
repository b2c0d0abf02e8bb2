"""A coordinator that runs: the parts of one replica of a broker, and what its server and links call.

What goes wrong with one request ends with it (`fault_containment`), and a row that cannot be read is left
where it is. When the store fails, a new incarnation begins from it (`replica`). Effects are carried out by
`effect_runner`, and what a register or a site may have forgotten is compared by `comparisons`.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.coordination.trust.credentials import Identity
from kalends.broker.coordination.trust.version_refusals import refused_for
from kalends.broker.coordination.user_calls import DRAINED
from kalends.broker.coordination.wings import Ground, Wing
from kalends.broker.desk.event_ring import EventRing
from kalends.broker.desk.notice_delivery import NoticeDelivery
from kalends.broker.desk.tickets import Tickets
from kalends.broker.effect_runner import Carriers, EffectRunner
from kalends.broker.metrics import Measures
from kalends.broker.planning.directory import Directory
from kalends.broker.reconciliation.recognition import Live, Recognition
from kalends.broker.reconciliation.site_memory import Memories
from kalends.broker.register.contract import Register
from kalends.broker.register.writes import LeaseRenewal, Resign, Result, Retire, Write
from kalends.broker.replica import store_errors
from kalends.broker.replica.heartbeat import Heartbeat
from kalends.broker.replica.leases import CLOCK_AHEAD, LEASE_MS, Leases
from kalends.broker.replica.replica import Incarnation, Replica
from kalends.broker.searches.site_queries import FIRST_QUERY_ID, SiteQueries
from kalends.broker.sites.comparisons import Comparisons
from kalends.broker.sites.inquiries import Inquiries
from kalends.broker.sites.site_link import SiteLink
from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.contract.versions import ServerVersion
from kalends.core.clock import LogicalClock
from kalends.core.errors import Unavailable
from kalends.core.features import Feature
from kalends.core.identifiers import request_id
from kalends.core.intervals import Moment
from kalends.serving.alarms import Alarms
from kalends.serving.clock_watch import ClockWatch
from kalends.serving.clocks import moment
from kalends.serving.configuration import BrokerNotices
from kalends.serving.logs import Logger
from kalends.serving.metrics import Metrics
from kalends.stores.group_commit import StoreFailed

T = TypeVar("T")

RESIGN_S_MAX: Final = 2.0
"""At a stop the lease is given back if the store takes that; else it runs out by itself."""


class ServiceWing(Protocol):
    """A wing in the service; it is `machine` in the coordinator of each incarnation."""

    @property
    def carriers(self) -> Carriers: ...

    def machine(self, ground: Ground) -> Wing: ...

    async def begun(self, coordinator: Coordinator, store: Register) -> None:
        """An incarnation begins; raises `Unavailable`."""

    async def beat(self, current: Incarnation, now: Moment) -> Callable[[Moment], object]:
        """The lease is renewed, and the register has forgotten nothing.

        Returns what is to be done about that if the incarnation still lasts; raises `Unavailable`.
        """


class BrokerService:
    """One replica of a broker. Made, used and stopped on one event loop.

    `open_store` opens the store; `replica` is this replica's name on it; `coords` are where sites
    may inquire; `wings` bring further parts; `moment` reads the clocks.
    """

    def __init__(
        self,
        *,
        replica: str,
        coords: tuple[str, ...],
        open_store: Callable[[], Coroutine[None, None, Register]],
        directory: Directory,
        open_per_user_max: int,
        wings: Sequence[ServiceWing] = (),
        notices: BrokerNotices | None = None,
        alarms: Alarms,
        logger: Logger,
        metrics: Metrics,
        measures: Measures,
        moment: Callable[[], Moment] = moment,
    ) -> None:
        self.moment = moment
        self.directory = directory
        self.logger = logger
        self.links: Mapping[str, SiteLink] = {}
        self.measures = measures
        self.logical_clock = LogicalClock()
        self.alarms = alarms
        self.clock_watch = ClockWatch(moment, self.alarms.reporter("clock"))
        self.events = EventRing(0)
        self.leases = Leases()
        self.tickets = Tickets()
        self.inquiries = Inquiries(self._inquire, time.monotonic)
        self.memories = Memories()
        self.drained_until_s = 0
        self.replica = Replica(logger, self._incarnation_failed, moment)
        self._coords = coords
        self._replica_name = replica
        self._open_store = open_store
        self._open_per_user_max = open_per_user_max
        self._wings = wings
        self._beating: asyncio.Task[None] | None = None
        self.notices = NoticeDelivery(
            notices, self.replica, self.leases, alarms.report, logger=logger, metrics=metrics
        )
        self.heartbeat = Heartbeat(
            self.replica, self.leases, self.memories, logger,
            begin=self._begin, lease=self._lease, look_at_clock=self.clock_watch.now,
            beaten=self._beaten, step=self.step, alarm=self.alarms.tell,
        )  # fmt: skip
        self.comparisons = Comparisons(
            directory, coords, self.replica, logger,
            alarms=self.alarms, step=self.step, stir=self.stir, written=self._written,
            certain=self.heartbeat.certain, wake=self.heartbeat.wake,
        )  # fmt: skip
        self.runner = EffectRunner(
            self.replica, lambda: self.links, self.memories, self.comparisons, self.inquiries,
            self.tickets, self.events, measures,
            {kind: carry for wing in wings for kind, carry in wing.carriers.items()}, self.notices.beat,
            alarm=self.alarms.tell, tell_unreadable=self.heartbeat.tell_unreadable,
        )  # fmt: skip
        self.site_queries = SiteQueries(self.runner.send)

    # Start and stop

    async def start(self, links: Mapping[str, SiteLink] = MappingProxyType({})) -> None:
        """Begin from the store, with `links` to the sites; raises what its opening raises."""
        self.links = links
        await self._begin()
        self.heartbeat.start()

    async def stop(self, wait_s: float) -> None:
        """Finish what is open within `wait_s`, give the lease back, and close the store."""
        if self.replica.current is not None:
            self.replica.coordinator.calls.drained_until_s = DRAINED
            if not await self.runner.wait_until_quiet(wait_s):
                self.logger.warning("stopped_with_open_requests", count=len(self.cases))
        self.runner.stop_watching()
        await self.heartbeat.stop()
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        self.runner.stop_timer()
        await self.notices.close()
        current = self.replica.end()
        self.runner.give_up_waiting(store_errors.LOST, store_errors.unusable())
        if current is not None:
            try:
                async with asyncio.timeout(RESIGN_S_MAX):
                    await current.store.writer.run((Resign(current.coordinator.identity.owner),))
            except (StoreFailed, TimeoutError) as error:
                self.logger.error("lease_not_given_back", reason=str(error))
            await current.store.close()
        else:
            await self.replica.close_failed()

    async def _begin(self) -> None:
        store = await self._open_store()
        try:
            current = await self._incarnation(store)
        except BaseException:
            # Also when this is cancelled: whoever opens a store that does not begin closes it.
            await store.close()
            raise
        self.runner.begin()
        self.heartbeat.incarnation_begins()
        if not self.events.last:
            self.events.last = self.logical_clock.value
        current.coordinator.calls.drained_until_s = self.drained_until_s
        self.replica.begin(current)
        for link in self.links.values():
            link.resume()
        self.logger.info("broker_begins", owner=current.coordinator.identity.owner)

    async def _incarnation(self, store: Register) -> Incarnation:
        """Return the next incarnation, with a lease, before it is put to use."""
        owner = f"{self._replica_name}:{store.epoch}"
        name = secrets.token_hex(16)
        # The start before may have given out stamps until it was retired: the bound is read after that.
        await store.writer.run((Retire(self._replica_name, owner), Live(name, 0)))
        bound = max((await store.look()).clock_bound, self.logical_clock.value)
        now = self.moment()
        self.logical_clock = LogicalClock.resumed(bound, now.wall_ms)
        await store.writer.run((self._lease(owner, now),))
        asked_ms = self.moment().monotonic_ms
        outlook = await store.look()
        now = self.moment()
        self.leases.look(outlook.beats, asked_ms, now.monotonic_ms)
        recognition = Recognition(
            store.secret,
            self.directory.sites,
            put_back=outlook.put_back,
            promoted=store.promoted,
            monotonic_ms=now.monotonic_ms,
        )
        coordinator = Coordinator(
            Identity(self._replica_name, owner, self._coords, store.secret),
            self.directory,
            self.logical_clock,
            new_rid=lambda now: request_id(now.wall_ms, secrets.randbits(74)),
            jitter=random.random,
            open_per_user_max=self._open_per_user_max,
            owner_alive=self.leases.alive,
            certain=lambda: recognition.is_certain(self.moment().monotonic_ms),
            wings=[wing.machine for wing in self._wings],
        )
        for wing in self._wings:
            await wing.begun(coordinator, store)
        return Incarnation(name, store, coordinator, recognition)

    def _lease(self, owner: str, now: Moment) -> LeaseRenewal:
        ahead = max(self.logical_clock.value, now.wall_ms) + CLOCK_AHEAD
        return LeaseRenewal(owner, ahead)

    def _incarnation_failed(self) -> None:
        """Answer all waiting callers, close the links, and let the heartbeat begin the next incarnation."""
        self.runner.fail()
        self.notices.end_life()
        for link in self.links.values():
            link.pause()
        self.heartbeat.wake()

    def _beaten(self) -> None:
        self.comparisons.beat()
        # Wings may look through much of the register: no lease waits for that.
        if self._beating is None or self._beating.done():
            self._beating = asyncio.create_task(self._beat_wings())
        self.notices.beat()
        self.stir()

    async def _beat_wings(self) -> None:
        current = self.replica.current
        if current is None or not current.recognition.has_listened(self.moment().monotonic_ms):
            return
        try:
            for wing in self._wings:
                act = await wing.beat(current, self.moment())
                self.replica.check_still(current)
                self.step(partial(act, self.moment()))
        except Unavailable as error:
            self.logger.warning("wing_not_beaten", reason=str(error))
        except Exception as error:
            # The boundary of one look: the next beat brings another.
            self.logger.error("wing_failed", exc_info=error)
            self.alarms.tell(f"a part of the broker failed at a beat: {error!r}")

    # For the calls of users

    @property
    def coordinator(self) -> Coordinator:
        """Raises `Unavailable` while the store cannot be used."""
        return self.replica.coordinator

    @property
    def store(self) -> Register:
        """Raises `Unavailable` while the store cannot be used."""
        return self.replica.store

    @property
    def cases(self) -> Mapping[str, Transaction]:
        return self.replica.cases

    def trouble(self) -> str:
        """Return why this replica cannot do its work, or ""."""
        if self.replica.failure:
            return self.replica.failure
        if stuck := self.replica.stuck():
            return stuck.detail
        current = self.replica.current
        if current is not None and (unsettled := current.recognition.unsettled()):
            return f"{store_errors.put_back().detail}; not compared yet: {', '.join(unsettled)}"
        silent_s = self.heartbeat.silent_s()
        if silent_s * 1000 >= LEASE_MS:
            return f"the lease of this replica was not renewed for {silent_s:.0f} s"
        return ""

    def drain(self, until_s: int) -> None:
        """Take no new requests until then, or the next start; 0: take them again."""
        self.coordinator.calls.drained_until_s = self.drained_until_s = until_s

    @property
    def drained_until(self) -> int:
        """Return the end of the drain that holds now (seconds UTC; `DRAINED`: it has none); 0: none holds."""
        return self.drained_until_s if self.moment().wall_s < self.drained_until_s else 0

    async def settle(self) -> None:
        """Return when everything up to now is durable; raises `Unavailable` and `OutcomeUnknown`."""
        self.runner.carry_out()
        await self.runner.stored(())

    def stir(self) -> None:
        self.runner.stir()

    def step(self, call: Callable[[], object], *, goes_on: bool = False) -> None:
        self.runner.step(call, goes_on=goes_on)

    async def _written(self, writes: Sequence[Write]) -> Sequence[Result]:
        return await self.runner.written(writes)

    # Links (`kalends.broker.sites.site_link.LinkUser`)

    async def site_said(self, site: str, messages: Sequence[m.Message]) -> None:
        """Handle messages of a site; drop those that belong to no request.

        What the register has to say to a message is asked before the next one is looked at.
        """
        now = self.moment()
        for message in messages:
            if isinstance(message, m.Known):
                await self.comparisons.known(site, message)
                now = self.moment()
            elif isinstance(message, m.Compared | m.Relocked):
                await self.comparisons.compared(site, message)
                self.stir()
                now = self.moment()
            else:
                self._hear(site, message, now)

    def _hear(self, site: str, message: m.Message, now: Moment) -> None:
        """Handle a message that nothing has to be read for."""
        if isinstance(message, m.Hello) and message.site != site:
            self._complain(site, "says that it is another site", now)
        elif isinstance(message, m.View) and message.query_id >= FIRST_QUERY_ID:
            if complaint := self.site_queries.answered(site, message):
                self._complain(site, complaint, now)
        elif self.replica.current is not None:
            self._take(self.replica.current.coordinator, site, message, now)
        elif isinstance(message, m.Hello):
            self.directory.greet(message)

    def _take(self, coordinator: Coordinator, site: str, message: m.Message, now: Moment) -> None:
        hello = isinstance(message, m.Hello)
        self.step(lambda: coordinator.receive(site, message, now), goes_on=hello)

    def _complain(self, site: str, complaint: str, now: Moment) -> None:
        if self.replica.current is not None:
            self.replica.current.coordinator.checks.complain(site, complaint, now)
            self.stir()

    async def welcome(self, site: str) -> m.Welcome:
        outlook = await self.replica.read(lambda store: store.look())
        store = self.store
        return m.Welcome(
            register=store.identity,
            secret=proofs.site_key(store.secret, site),
            remembered=self.memories.of(site, outlook.marks.get(site)),
        )

    def site_at(self, site: str, mark: m.Mark) -> None:
        self.memories.at(site, mark)

    def site_lost(
        self, site: str, reason: str, *, unusable: bool = False, ours: bool = False
    ) -> None:
        current = self.replica.current
        if current is not None and not ours:
            self.step(
                lambda: current.coordinator.site_lost(site, reason, unusable=unusable), goes_on=True
            )
        else:
            self.directory.lose(site, reason, unusable=unusable, ours=ours)
        self.site_queries.lost(site)
        self.clock_watch.lost(site)
        self.comparisons.lost(site)

    def heard_clocks(self, site: str, logical: int, wall_ms: int) -> None:
        self.logical_clock.merge(logical, self.moment().wall_ms)
        if wall_ms:
            self.clock_watch.heard(site, wall_ms)
            self.directory.hear_clock(site, wall_ms, self.moment())

    def site_version(self, site: str, version: ServerVersion) -> None:
        self.directory.sites[site].version = version

    def site_reached(self, site: str, url: str) -> None:
        self.directory.peer_urls[site] = url

    def unsaid(self, site: str, message: m.Message, feature: Feature) -> None:
        """The site is too old for what it is asked: that is a refusal, as if it had said so itself."""
        answer = refused_for(self.directory.sites[site], message, feature)
        if answer is None:
            kind = type(message).__name__
            self.logger.warning("site_is_older", site=site, message=kind, lacks=feature.name)
        else:
            asyncio.get_running_loop().call_soon(self._hear, site, answer, self.moment())

    def mark(self, site: str) -> m.Mark | None:
        return self.runner.mark(site)

    def clocks(self) -> tuple[int, int]:
        return self.logical_clock.value, self.moment().wall_ms

    def _inquire(self, reply_to: str, inquire: m.Inquire | m.StartAsk) -> None:
        coordinator = self.coordinator
        self.step(lambda: coordinator.receive(reply_to, inquire, self.moment()))
