"""The site as a server: its life from start to stop, its sessions with brokers, its peers.

A site lives as long as its store works. When the store fails, what was not stored was not said, and
what was said is stored: so the site drops everything in memory, closes its sessions, and opens the
store again every second until that works, with a new epoch that tells brokers that holds are gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Final, Literal

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web

from kalends.core import api, limits, wire
from kalends.core import messages as m
from kalends.core.clock import LogicalClock
from kalends.core.errors import (
    InvalidInput,
    KalendsError,
    LimitExceeded,
    NotAllowed,
    NotAuthenticated,
    StoreDamaged,
    TooLarge,
    Unavailable,
)
from kalends.core.intervals import Moment
from kalends.resource_servers.assembly import calendars_of, limits_of
from kalends.resource_servers.effects import Send
from kalends.resource_servers.engine import SiteEngine, unavailable
from kalends.resource_servers.links import BrokerLink
from kalends.resource_servers.operations import SiteOperations
from kalends.resource_servers.participant import Participant
from kalends.resource_servers.peers import PEERS_PATH, PeerCalls
from kalends.resource_servers.store import DRAINING, SiteStore
from kalends.serving.application import build_application, caller_of, open_socket
from kalends.serving.callers import Authenticator, Caller, OpenAccess
from kalends.serving.configuration import KeyConfiguration, SiteConfiguration
from kalends.serving.group_commit import Committed, StoreFailed
from kalends.serving.incoming import read_body
from kalends.serving.keys import load_trusted_keys
from kalends.serving.limiting import RateLimiter, ServingLimits
from kalends.serving.logs import Logger, get_logger
from kalends.serving.metrics import Metrics
from kalends.serving.tokens import KeyRing

SESSION_PATH: Final = "/v1/session"

REOPEN_EVERY_S: Final = 1.0
ALARMS_KEPT_MAX: Final = 1_000
SESSIONS_MAX: Final = 256
"""Brokers' replicas with a session at once: far more than would ever serve one site."""

BEHIND_MAX: Final = 64
"""Frames whose facts wait for the disk; beyond it no further frame is read."""

PEER_BYTES_MAX: Final = 4_096
PEER_ASKS_PER_S: Final = 50.0
PEER_ASKS_BURST: Final = 200
"""For each address: peers ask a few times a minute about each promise that nobody decides."""

PEER_SOURCE: Final = "peer#"
"""Where the answer to a peer's question goes; no broker can have such a name."""

BATCH_BUCKETS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 20_000)


def now() -> Moment:
    return Moment(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)


def build_site(
    configuration: SiteConfiguration, *, version: str, moment: Callable[[], Moment] = now
) -> web.Application:
    """The complete application of a site; it opens its store when it starts to serve.

    Raises `InvalidInput` for a configuration that cannot be. Starting raises what
    `SiteStore.open` raises, and `StoreDamaged` when the calendars cannot carry what was promised.
    """
    calendars_of(configuration)
    metrics = Metrics(role="site", name=configuration.name, version=version)
    logger = get_logger(role="site", name=configuration.name)
    authenticator = authenticator_of(configuration.name, configuration.keys)
    site = SiteServer(configuration, version, moment, metrics, logger)
    application = build_application(
        role="site",
        name=configuration.name,
        version=version,
        handlers=SiteOperations(site, moment).handlers(),
        authenticator=authenticator,
        metrics=metrics,
        logger=logger,
        limits=site.limits,
        routes=[
            web.get(SESSION_PATH, site.session, allow_head=False),
            web.post(PEERS_PATH, site.peer_asks),
        ],
        on_stop=site.begin_stop,
    )
    application.on_startup.append(site.start)
    application.on_cleanup.append(site.stop)
    return application


def authenticator_of(name: str, keys: Sequence[KeyConfiguration]) -> Authenticator:
    """How a server called `name` knows its callers: by tokens of `keys`; without any, open access."""
    trusted = [
        found
        for key in keys
        for found in load_trusted_keys(key.file, issuer=key.issuer, scopes=frozenset(key.scopes))
    ]
    return KeyRing(trusted, name) if trusted else OpenAccess()


class SiteServer:
    """One site: `SiteEngine`s one after the other, and whoever is connected."""

    def __init__(
        self,
        configuration: SiteConfiguration,
        version: str,
        moment: Callable[[], Moment],
        metrics: Metrics,
        logger: Logger,
    ) -> None:
        self.limits = ServingLimits(
            calls_per_s=configuration.limits.calls_per_s,
            calls_burst=configuration.limits.calls_burst,
        )
        self.alarms: deque[str] = deque(maxlen=ALARMS_KEPT_MAX)
        self._configuration = configuration
        self._version = version
        self._moment = moment
        self._logger = logger
        self._clock = LogicalClock(moment().wall_ms)
        self._engine: SiteEngine | None = None
        self._state: Literal["ok", "starting", "failing"] = "starting"
        self._detail = ""
        self._stopping = False
        self._links: dict[str, BrokerLink] = {}
        self._open: set[BrokerLink] = set()
        self._peers: PeerCalls | None = None
        self._waiters: dict[str, asyncio.Future[m.Message]] = {}
        self._asked = 0
        self._peer_limits = msgspec.structs.replace(self.limits, body_bytes_max=PEER_BYTES_MAX)
        self._peer_limiter = RateLimiter(
            per_s=PEER_ASKS_PER_S, burst=PEER_ASKS_BURST, tracked_max=10_000
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._make_metrics(metrics)

    # Life

    async def start(self, application: web.Application) -> None:
        self._peers = PeerCalls(self._answered, self._logger)
        try:
            self._engine = await self._begin()
        except BaseException:
            await self._peers.close()
            raise
        self._state = "ok"

    def begin_stop(self) -> None:
        """Everything received so far is settled, then sessions are closed as going away."""
        self._stopping = True
        self._spawn(self._end_sessions())

    async def stop(self, application: web.Application) -> None:
        """Store everything and close the store; nothing that was promised is lost without it."""
        self._stopping = True
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._peers is not None:
            await self._peers.close()
        if self._engine is not None:
            await self._engine.close()
            self._engine = None

    async def _end_sessions(self) -> None:
        if self._engine is not None:
            with contextlib.suppress(StoreFailed):
                await self._engine.settle()
        await self._close_links(WSCloseCode.GOING_AWAY, "the site is stopping")

    async def _begin(self) -> SiteEngine:
        """Open the store and take over what it knows."""
        configuration = self._configuration
        store = await asyncio.to_thread(SiteStore.open, configuration.store, configuration.name)
        try:
            participant = await asyncio.to_thread(self._restore, store)
        except BaseException:
            store.close()
            raise
        self._logger.info("store_opened", epoch=store.epoch, requests=len(participant.book.stakes))
        return SiteEngine(
            store,
            participant,
            moment=self._moment,
            deliver=self._deliver,
            alarmed=self._alarmed,
            failed=self._failed,
            observe=self._observe,
        )

    def _restore(self, store: SiteStore) -> Participant:
        loaded = store.load()
        try:
            participant = Participant(
                self._configuration.name,
                self._configuration.url_at(f"http://{self._configuration.listen}"),
                calendars_of(self._configuration),
                epoch=loaded.epoch,
                jitter=random.random,
                limits=limits_of(self._configuration),
                stakes=loaded.stakes,
                horizon_s=loaded.horizon_s,
                now=self._moment(),
            )
        except AssertionError as error:
            raise StoreDamaged(
                f"the configured resources cannot carry what was promised: {error}",
                where=str(self._configuration.store),
                remedy="configure every resource that has bookings, with room for all of them",
            ) from error
        participant.draining = bool(store.setting(DRAINING))
        # What was loaded lives long: the garbage collector need not look at it again and again.
        gc.freeze()
        return participant

    def engine(self) -> SiteEngine:
        """The site as it runs now; raises `Unavailable` when its store does not work."""
        if self._engine is None or self._state != "ok":
            raise unavailable()
        return self._engine

    def health(self) -> api.Health:
        status: Literal["ok", "starting", "draining", "failing"] = self._state
        if status == "ok" and self.engine().participant.draining:
            status = "draining"
        return api.Health(
            status=status,
            role="site",
            name=self._configuration.name,
            version=self._version,
            detail=self._detail,
        )

    # Failure of the store

    def _failed(self, failure: StoreFailed) -> None:
        engine, self._engine = self._engine, None
        self._state, self._detail = "failing", failure.detail
        self._logger.error("store_failed", detail=failure.detail, exc_info=failure.__cause__)
        for waiter in self._waiters.values():
            if not waiter.done():
                waiter.set_exception(unavailable())
        if engine is not None:
            self._spawn(self._recover(engine))

    async def _recover(self, engine: SiteEngine) -> None:
        await self._close_links(WSCloseCode.TRY_AGAIN_LATER, "the site's store has failed")
        await engine.close()
        while not self._stopping:
            await asyncio.sleep(REOPEN_EVERY_S)
            try:
                self._engine = await self._begin()
            except KalendsError as error:
                if str(error) != self._detail:
                    self._logger.error("store_not_reopened", detail=str(error))
                self._detail = str(error)
            else:
                self._state, self._detail = "ok", ""
                return

    # Messages out

    def _deliver(self, sends: Sequence[Send]) -> None:
        """To a session, to a peer that waits for its answer, or to an address; else it is lost."""
        links = self._links
        for to, message in sends:
            link = links.get(to)
            if link is not None:
                link.push(message)
            elif to.startswith(PEER_SOURCE):
                waiter = self._waiters.get(to)
                if waiter is not None and not waiter.done():
                    waiter.set_result(message)
            elif "://" in to and self._peers is not None:
                self._peers.ask(to, message)

    def _answered(self, url: str, answer: m.Message) -> None:
        """What a broker or a peer at `url` said; a peer speaks only for the site that lives there."""
        engine = self._engine
        if engine is None:
            return
        if isinstance(answer, m.PeerSays):
            stake = engine.participant.book.stakes.get(answer.rid)
            if stake is None or m.Part(answer.site, url) not in stake.parts:
                self._logger.warning("answer_of_another_site", url=url, site=answer.site)
                return
        with contextlib.suppress(Unavailable):
            engine.receive(url, (answer,))

    def _alarmed(self, alarm: str) -> None:
        self.alarms.append(alarm)
        self._alarm_count.inc()
        self._logger.error("alarm", detail=alarm)

    # Sessions with brokers

    async def session(self, request: web.Request) -> web.StreamResponse:
        """The WebSocket of one broker replica, authenticated at the upgrade."""
        caller = caller_of(request, "broker")
        self.engine()
        if self._stopping:
            raise Unavailable("the site is stopping", retry_after_s=1.0)
        if len(self._open) >= SESSIONS_MAX:
            raise LimitExceeded(
                f"{SESSIONS_MAX} sessions are open, the most that a site keeps", retry_after_s=1.0
            )
        socket = await open_socket(request, self.limits)
        transport = request.transport
        link = BrokerLink(
            socket,
            self._configuration.name,
            lambda: self._clock.tick(self._moment().wall_ms),
            transport.abort if transport else lambda: None,
        )
        self._open.add(link)
        writer = asyncio.create_task(link.write())
        try:
            link.push(self.engine().participant.hello())
            await self._read(link, caller)
        except Unavailable as error:
            await link.close(WSCloseCode.TRY_AGAIN_LATER, error.detail)
        finally:
            self._open.discard(link)
            if self._links.get(link.name) is link:
                del self._links[link.name]
            link.closing = True
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
        return socket

    async def _read(self, link: BrokerLink, caller: Caller) -> None:
        """Take frames until the session is over, whoever ends it."""
        while not link.closing:
            message = await link.socket.receive()
            if message.type is WSMsgType.TEXT:
                reason = "frames are binary: MessagePack"
                await link.close(WSCloseCode.UNSUPPORTED_DATA, reason)
            elif message.type is not WSMsgType.BINARY:
                return
            elif not link.closing:
                try:
                    frame = wire.decode_msgpack(
                        message.data, m.FrameToSite, bytes_max=limits.FRAME_BYTES_MAX
                    )
                    self._accept(link, caller, frame)
                except (InvalidInput, TooLarge, NotAllowed, NotAuthenticated) as error:
                    self._logger.warning("session_refused", broker=link.name, detail=str(error))
                    await link.close(_close_code(error), f"{error.where}: {error.detail}")
                    return
                if (engine := self.engine()).behind > BEHIND_MAX:
                    await engine.settle()

    def _accept(self, link: BrokerLink, caller: Caller, frame: m.FrameToSite) -> None:
        """Take one frame, whole or not at all."""
        moment = self._moment()
        caller.require("broker", moment.wall_s)
        if frame.source != link.name:
            self._identify(link, caller, frame.source)
        self._clock.merge(frame.lc, moment.wall_ms)
        self._message_count.inc(len(frame.messages))
        self.engine().receive(link.name, frame.messages)

    def _identify(self, link: BrokerLink, caller: Caller, source: str) -> None:
        """The first frame says who the broker is, and its token must agree."""
        if link.name:
            raise NotAllowed(
                f"this session is that of {link.name}, not of {source}", where="source"
            )
        if caller.token_id != "open" and caller.principal.user != source:
            raise NotAllowed(
                f"the token is that of {caller.principal.user}, not of {source}",
                where="source",
                remedy="give every broker a token with its own name as user",
            )
        older = self._links.get(source)
        link.name = source
        self._links[source] = link
        if older is not None:
            reason = "a newer session of this broker took its place"
            self._spawn(older.close(WSCloseCode.POLICY_VIOLATION, reason))

    async def _close_links(self, code: int, reason: str) -> None:
        await asyncio.gather(
            *(link.close(code, reason) for link in list(self._open)), return_exceptions=True
        )

    # Peers

    async def peer_asks(self, request: web.Request) -> web.Response:
        """A fellow site asks what is known of an attempt; its secret proves that it takes part."""
        self._peer_limiter.take(request.remote or "", self._moment().monotonic_ms / 1000)
        body = await read_body(request, self._peer_limits)
        ask = wire.decode_msgpack(body, m.PeerAsk, bytes_max=PEER_BYTES_MAX)
        if ask.until > self._moment().wall_s + limits.WINDOW_S_MAX:
            raise InvalidInput("no slot ends so late", where="until")
        engine = self.engine()
        self._asked += 1
        source = f"{PEER_SOURCE}{self._asked}"
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[source] = waiter
        try:
            if not any(send.to == source for send in engine.receive(source, (ask,))):
                raise NotAllowed(
                    "the secret is not that of this request",
                    where="secret",
                    remedy="only sites that take part in a request can ask about it",
                )
            says = await waiter
        finally:
            del self._waiters[source]
        return web.Response(body=wire.encode_msgpack(says), content_type=wire.MSGPACK)

    # Bookkeeping

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _observe(self, committed: Committed) -> None:
        self._fact_count.inc(committed.operations)
        self._batch_sizes.observe(committed.operations)
        self._commit_seconds.observe(committed.seconds)

    def _make_metrics(self, metrics: Metrics) -> None:
        self._fact_count = metrics.counter("kalends_facts", "Facts stored.")
        self._message_count = metrics.counter("kalends_messages", "Messages of brokers taken.")
        self._alarm_count = metrics.counter("kalends_alarms", "What the protocol forbids, seen.")
        self._batch_sizes = metrics.histogram(
            "kalends_commit_facts", "Facts in one transaction.", buckets=BATCH_BUCKETS
        )
        self._commit_seconds = metrics.histogram("kalends_commit_seconds", "Seconds to a commit.")
        metrics.gauge(
            "kalends_broker_sessions", "Brokers' sessions.", value=lambda: len(self._open)
        )
        claims = metrics.gauge("kalends_claims", "Bookings on the calendars.", ("state",))
        states: tuple[Literal["held", "prepared", "locked"], ...] = ("held", "prepared", "locked")
        for state in states:
            claims.labels(state).set_function(partial(self._total, state))

    def _total(self, state: Literal["held", "prepared", "locked"]) -> int:
        return self._engine.participant.book.totals()[state] if self._engine else 0


def _close_code(error: KalendsError) -> int:
    if isinstance(error, TooLarge):
        return WSCloseCode.MESSAGE_TOO_BIG
    if isinstance(error, InvalidInput) and error.where != "lc":
        return WSCloseCode.INVALID_TEXT
    return WSCloseCode.POLICY_VIOLATION
