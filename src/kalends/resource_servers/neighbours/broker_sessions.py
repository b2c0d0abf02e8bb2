"""The sessions of a site with its brokers: who is connected, and every frame that comes in.

A frame is understood whole or not at all, and a long one is answered in turns, between which others are
served. One that cannot be understood ends its session with a close code: 1007 and the path of what is
malformed, 1008 for who, 1009 for size, 1013 while the site's store does not work. The broker connects
again, and repeats what was not answered. Who a broker is was looked at when it connected, and is looked
at again whenever it sends a fresh token (`kalends.serving.auth.session_proof`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec
from aiohttp import WSCloseCode, WSMessage, WSMsgType, web
from aiohttp.http import WS_CLOSED_MESSAGE

from kalends.contract import codec
from kalends.contract import messages as m
from kalends.contract.paths import WAY_HEADER, way_in
from kalends.contract.versions import ServerVersion, agreed, version_in
from kalends.core import limits
from kalends.core.clock import LogicalClock
from kalends.core.errors import (
    Conflict,
    InvalidInput,
    KalendsError,
    LimitExceeded,
    NotAllowed,
    NotAuthenticated,
    TooLarge,
    Unavailable,
)
from kalends.core.features import Feature
from kalends.resource_servers.neighbours.links import BrokerLink
from kalends.resource_servers.participation.effects import Send
from kalends.resource_servers.participation.registers import Badge
from kalends.resource_servers.service import SiteEngine
from kalends.serving.auth.callers import OPEN, Caller
from kalends.serving.auth.session_proof import Belief
from kalends.serving.clock_watch import ClockWatch
from kalends.serving.http.application import caller_by, caller_of, open_socket
from kalends.serving.http.problem_answers import refused_session
from kalends.serving.http.rate_limits import ServingLimits
from kalends.serving.logs import Logger

SESSIONS_MAX: Final = 256
"""Brokers' replicas with a session at once: far more than would ever serve one site."""

_FRAMES: Final = msgspec.msgpack.Decoder(m.FrameToSite)

BEHIND_MAX: Final = 64
"""Frames whose facts wait for the disk; beyond it no further frame is read."""

TURN_WANTS_MAX: Final = limits.CLAIMS_MAX
"""Messages, and slots that they ask about, between two chances for others: as many as one may ask about."""


class BrokerSessions:
    """`engine` gives the running site, or raises `Unavailable`; `taken` counts messages.

    `version` is this site's: what it does not know itself is used with nobody.
    """

    def __init__(
        self,
        site: str,
        engine: Callable[[], SiteEngine],
        watch: ClockWatch,
        serving_limits: ServingLimits,
        version: ServerVersion,
        taken: Callable[[int], None],
        logger: Logger,
    ) -> None:
        self._site = site
        self._engine = engine
        self._watch = watch
        self._moment = watch.now
        self._limits = serving_limits
        self._version = version
        self._taken = taken
        self._logger = logger
        self._clock = LogicalClock(watch.now().wall_ms)
        self._links: dict[str, BrokerLink] = {}
        self._open: dict[BrokerLink, Belief] = {}
        self._replaced: set[asyncio.Task[None]] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._open)

    def link(self, broker: str) -> BrokerLink | None:
        return self._links.get(broker)

    def push_to(self, register: str, message: m.Message) -> None:
        """To every replica of the broker of `register`; "" for one that is not known: to every broker."""
        for link in self._links.values():
            if register in ("", link.register):
                link.push(message)

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """The WebSocket of one broker replica, authenticated at the upgrade.

        One that cannot be served now, is too old, or does not say clearly what it knows, is told so in a
        header.
        """
        belief = Belief(caller_of(request, "broker"), self._moment().monotonic_ms)
        try:
            engine = self._engine()
            if self._stopping:
                raise Unavailable("the site is stopping", retry_after_s=1.0)
            if len(self._open) >= SESSIONS_MAX:
                raise LimitExceeded(
                    f"{SESSIONS_MAX} sessions are open, the maximum of a site", retry_after_s=1.0
                )
        except (Unavailable, LimitExceeded) as error:
            return refused_session(error)
        us, them = f"site {self._site}", f"this broker ({belief.caller.principal.user})"
        try:
            theirs = version_in(request.headers)
            known = agreed(self._version, theirs, us, them)
        except (InvalidInput, Conflict) as error:
            self._logger.warning("session_refused", broker=them, detail=str(error))
            return refused_session(error)
        socket = await open_socket(request, self._limits)
        transport = request.transport
        link = BrokerLink(
            socket,
            self._site,
            lambda: (self._clock.tick(self._moment().wall_ms), self._watch.wall_ms()),
            engine.mark,
            known,
            self._unsaid,
            transport.abort if transport else lambda: None,
        )
        link.through = way_in(request.headers.get(WAY_HEADER, ""))
        link.version = ServerVersion(theirs.number, known)
        self._open[link] = belief
        writer = asyncio.create_task(link.write())
        try:
            link.push(self._engine().participant.hello())
            await self._read(link, belief, lambda token: caller_by(request, token, "broker"))
        except Unavailable as error:
            await link.close(WSCloseCode.TRY_AGAIN_LATER, error.detail)
        finally:
            self._open.pop(link, None)
            if self._links.get(link.name) is link:
                del self._links[link.name]
                self._watch.lost(link.name)
            link.closing = True
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
        return socket

    def _unsaid(self, broker: str, message: m.Message, feature: Feature) -> None:
        """The broker hears nothing of it, as of a message that is lost: it asks again, and gives up."""
        self._logger.warning(
            "broker_is_older", broker=broker, message=type(message).__name__, lacks=feature.name
        )

    async def close(self, code: int, reason: str, *, stopping: bool = False) -> None:
        """Close every session, after what waits has been sent; `stopping`: and open none any more."""
        self._stopping = self._stopping or stopping
        closing = [link.close(code, reason) for link in list(self._open)]
        await asyncio.gather(*closing, *self._replaced, return_exceptions=True)

    async def close_unless(self, believed: Callable[[Caller], bool]) -> None:
        """Close the sessions of brokers that are no longer trusted."""
        closing = [
            link.close(WSCloseCode.POLICY_VIOLATION, "the broker's key is no longer trusted")
            for link, belief in list(self._open.items())
            if not believed(belief.caller)
        ]
        await asyncio.gather(*closing, return_exceptions=True)

    async def _read(
        self, link: BrokerLink, belief: Belief, caller_by: Callable[[str], Caller]
    ) -> None:
        """Take frames until either side ends the session."""
        while not link.closing:
            message = await self._next(link, belief)
            if message.type is WSMsgType.TEXT:
                await link.close(WSCloseCode.UNSUPPORTED_DATA, "frames are binary: MessagePack")
                return
            if message.type is not WSMsgType.BINARY or link.closing:
                return
            try:
                frame = codec.decode_frame(message.data, _FRAMES)
                await self._take(link, self._accept(link, belief, caller_by, frame))
            except (InvalidInput, TooLarge, NotAllowed, NotAuthenticated) as error:
                self._logger.warning("session_refused", broker=link.name, detail=str(error))
                await link.close(_close_code(error), f"{error.where}: {error.detail}")
                return
            if (engine := self._engine()).behind > BEHIND_MAX:
                await engine.settle()

    async def _next(self, link: BrokerLink, belief: Belief) -> WSMessage:
        """Return the next frame; wait no longer than the session is trusted."""
        try:
            async with asyncio.timeout(belief.left_s(self._moment().monotonic_ms)):
                return await link.socket.receive()
        except TimeoutError:
            await link.close(WSCloseCode.POLICY_VIOLATION, "the broker did not prove its identity")
            return WS_CLOSED_MESSAGE

    def _accept(
        self,
        link: BrokerLink,
        belief: Belief,
        caller_by: Callable[[str], Caller],
        frame: m.FrameToSite,
    ) -> Sequence[m.Message]:
        """What `frame` asks of the site, once it is clear who asks."""
        moment = self._moment()
        if frame.proof and belief.runs_out:
            self._believe(link, belief, caller_by, frame.proof)
        belief.check(moment.monotonic_ms)
        self._clock.merge(frame.lc, moment.wall_ms)
        messages: Sequence[m.Message] = frame.messages
        if any(isinstance(each, m.Welcome) for each in messages[not link.register :]):
            raise NotAllowed("Welcome is sent once, as the first message", where="messages")
        if not link.register or frame.source != link.name:
            self._identify(link, belief.caller, frame.source, messages)
            messages = messages[1:]
        if frame.mark is not None:
            self._engine().heard_mark(link.name, frame.mark)
        if frame.wall_ms:
            self._watch.heard(link.name, frame.wall_ms)
        self._engine().heard_clock(link.name, frame.wall_ms)
        return messages

    async def _take(self, link: BrokerLink, messages: Sequence[m.Message]) -> None:
        """Have the site answer `messages`; what is left when the session ends is lost as on the way."""
        for number, turn in enumerate(turns_of(messages)):
            if number:
                await asyncio.sleep(0)
            if link.closing:
                return
            self._taken(len(turn))
            self._count(link, turn, self._engine().receive(link.name, turn))

    def _count(self, link: BrokerLink, turn: Sequence[m.Message], sends: Iterable[Send]) -> None:
        """Count what a comparison restores, and log it at its end."""
        for message in turn:
            match message:
                case m.Compare(after=""):
                    link.comparing = True
                case m.Cancel():
                    link.freed += link.comparing
        link.locked_again += sum(
            isinstance(each.message, m.Relocked) and not each.message.blockers for each in sends
        )
        if any(isinstance(message, m.Settled) for message in turn):
            self._logger.info(
                "broker_compared",
                broker=link.name,
                locked_again=link.locked_again,
                freed=link.freed,
            )
            link.comparing, link.locked_again, link.freed = False, 0, 0

    def _believe(
        self, link: BrokerLink, belief: Belief, caller_by: Callable[[str], Caller], proof: str
    ) -> None:
        """Go on believing who `proof` names. One that is refused ends nothing: a clock may be wrong for
        a moment, and the next proof comes soon.
        """
        try:
            caller = caller_by(proof)
        except (NotAuthenticated, NotAllowed) as error:
            self._logger.warning("proof_refused", broker=link.name, detail=str(error))
            return
        belief.renew(caller, self._moment().monotonic_ms)

    def _identify(
        self, link: BrokerLink, caller: Caller, source: str, messages: Sequence[m.Message]
    ) -> None:
        """The first frame says who the broker is, and for which register; its key must allow both."""
        if link.name:
            raise NotAllowed(
                f"this session belongs to {link.name}, not to {source}", where="source"
            )
        if caller.key != OPEN and caller.principal.user != source:
            raise NotAllowed(
                f"the token belongs to {caller.principal.user}, not to {source}",
                where="source",
                remedy="give every broker a token with its own name as user",
            )
        welcome = _welcome_of(messages)
        badge = Badge(caller.key, caller.vouching, link.through)
        self._engine().welcome(source, welcome, badge)
        link.register = welcome.register
        older = self._links.get(source)
        link.name = source
        self._links[source] = link
        self._engine().meet(source, welcome)
        if older is not None:
            reason = "a newer session of this broker took its place"
            task = asyncio.create_task(older.close(WSCloseCode.POLICY_VIOLATION, reason))
            self._replaced.add(task)
            task.add_done_callback(self._replaced.discard)
        self._engine().broker_came()


def turns_of(messages: Sequence[m.Message]) -> Iterator[Sequence[m.Message]]:
    """Return `messages` in parts, in order: each of one message, or of at most `TURN_WANTS_MAX`."""
    first, size = 0, 0
    for number, message in enumerate(messages):
        more = 1 + len(getattr(message, "wants", ()))
        if number > first and size + more > TURN_WANTS_MAX:
            yield messages[first:number]
            first, size = number, 0
        size += more
    yield messages[first:]


def _welcome_of(messages: Sequence[m.Message]) -> m.Welcome:
    """The first message of a session says for which register the broker works."""
    first = messages[0] if messages else None
    if not isinstance(first, m.Welcome):
        raise NotAllowed("the first message of a session is Welcome", where="messages[0]")
    return first


def _close_code(error: KalendsError) -> int:
    if isinstance(error, TooLarge):
        return WSCloseCode.MESSAGE_TOO_BIG
    if isinstance(error, InvalidInput):
        return WSCloseCode.INVALID_TEXT
    return WSCloseCode.POLICY_VIOLATION
