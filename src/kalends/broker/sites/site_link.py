"""The WebSocket to one site, kept up: connected again whenever it is lost, with patience and jitter.

The site speaks first: a Hello that says who it is. Our first message is Welcome. What is sent to a site
in one turn of the event loop leaves in one frame. Nothing is kept for a site that is not connected: the
protocol says it all again when it is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import aiohttp
import msgspec

from kalends.contract import codec
from kalends.contract import messages as m
from kalends.contract.agreement import fitted
from kalends.contract.paths import SESSION_PATH, WHY_HEADER
from kalends.contract.versions import ServerVersion, agreed, version_in
from kalends.core import limits
from kalends.core.errors import Conflict, InvalidInput, TooLarge, Unavailable
from kalends.core.features import Feature
from kalends.rim.broken_connections import BROKE, broken_words
from kalends.rim.proxies import proxy_url
from kalends.rim.redirects import answer_headers
from kalends.rim.web_addresses import addresses_in
from kalends.serving.auth.peer_auth import Proof
from kalends.serving.auth.session_proof import PROVE_EVERY_S
from kalends.serving.logs import Logger

NOT_AUTHENTICATED: Final = 401
NOT_TRUSTED: Final = (NOT_AUTHENTICATED, 403)
HEARTBEAT_S: Final = 10.0
"""A ping this often; a site that does not answer within half of it is lost."""

PING_EVERY_S: Final = 1.0
SILENT_S_MAX: Final = 5.0
"""A site with several addresses is pinged this often, and lost when nothing came for so long: by then its
standby serves. A site with one address has nobody else, and gets the time of a heartbeat."""

CONNECT_S_MAX: Final = 10.0
SILENT_CONNECT_S: Final = 2.0
"""An address that was silent may take this long, once for each time that it was: another address waits
meanwhile. It may be well, though, and this broker may have been the one that stood still."""

HELLO_S_MAX: Final = 10.0
CLOSE_S_MAX: Final = 10.0
CLOSE_SILENT_S_MAX: Final = 0.1
RETRY_S_MIN: Final = 0.2
RETRY_S_MAX: Final = 5.0
"""The longest delay before a site that is back is used again."""

OUTBOX_BYTES_MAX: Final = 32 * 1024 * 1024
"""What a site that does not read can make us keep; beyond it the connection is dropped."""

SPACING_S_MAX: Final = 0.006
SPACING_PER_MESSAGE_S: Final = 0.001
"""After a frame of several messages the next one waits so long for company: a frame costs both sides
more than the messages in it. One of a single message is followed by none, so that a lone booking
never waits."""

IDLE_S_MAX: Final = 1.0
"""A Forget has nobody waiting for it: it leaves with the next frame, or after this time."""

OWN_STORE: Final = "this broker's own store does not answer; the site may be well"

WHY_CHARS_MAX: Final = 300
_FRAME_HEAD_BYTES_MAX: Final = 256


class _FrameOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """As `kalends.contract.messages.FrameToSite`, of messages that are bytes already."""

    v: int
    source: str
    lc: int
    messages: list[msgspec.Raw]
    wall_ms: int
    proof: str = ""
    mark: m.Mark | None = None


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(m.FrameToBroker)


class LinkLost(Exception):
    """The connection is over; the text says why. If `unusable`, somebody may have to mend something.

    `silent`: nothing came from the other side. `ours`: this broker ended it, and the site may be well.
    """

    def __init__(
        self, reason: str, *, unusable: bool = False, silent: bool = False, ours: bool = False
    ) -> None:
        super().__init__(reason)
        self.unusable = unusable
        self.silent = silent
        self.ours = ours


class LinkUser(Protocol):
    """The user of the links; called on the event loop."""

    async def site_said(self, site: str, messages: Sequence[m.Message]) -> None:
        """Messages of a connected site, in order; the first ever of a connection is its Hello.

        The next ones are read when these are handled. What is left when the connection ends is lost with it.
        """

    def site_lost(
        self, site: str, reason: str, *, unusable: bool = False, ours: bool = False
    ) -> None:
        """The site is not connected (any more); if `unusable`, until somebody mends something.

        If `ours`, the cause is this broker, and the site may be well.
        """

    def site_at(self, site: str, mark: m.Mark) -> None:
        """The site's position at its last message."""

    async def welcome(self, site: str) -> m.Welcome:
        """Return the first message to a site on a session; raises `Unavailable` without a store."""

    def heard_clocks(self, site: str, logical: int, wall_ms: int) -> None:
        """Take note of the site's clocks; `wall_ms` is 0 when it does not say."""

    def site_version(self, site: str, version: ServerVersion) -> None:
        """The site is being connected, and has this version, with the features that may be used with it."""

    def site_reached(self, site: str, url: str) -> None:
        """The site is connected at `url`, which is one of its addresses."""

    def unsaid(self, site: str, message: m.Message, feature: Feature) -> None:
        """`message` cannot be said to the site, for it does not know `feature`; nothing was sent."""

    def mark(self, site: str) -> m.Mark | None:
        """Return the register's position for the site; None without a store."""

    def clocks(self) -> tuple[int, int]:
        """The logical time to put on a frame, and what the wall clock shows (milliseconds UTC)."""


class SiteLink:
    """The link to site `name` at `url`; `run` keeps it until it is cancelled.

    `url` may be several addresses with commas between, of the site and its standby: they are tried in turn.

    `proof` is made anew for each connection, and again and again while it lasts; `jitter` gives
    numbers in [0, 1); `tls` is what to trust for https. `version` is the broker's own: what it does not
    know itself is used with no site.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        source: str,
        version: ServerVersion,
        http: aiohttp.ClientSession,
        tls: ssl.SSLContext | bool,
        proof: Proof,
        user: LinkUser,
        logger: Logger,
        jitter: Callable[[], float],
    ) -> None:
        self.name = name
        self.connected = False
        self._urls = deque(addresses_in(url))
        """The first one is used, or is tried next."""
        self._silent_s_max = SILENT_S_MAX if len(self._urls) > 1 else None
        self._silences: Counter[str] = Counter()
        """By address, since it was last connected."""
        self._source = source
        self._version = version
        self._known: frozenset[str] = frozenset()
        """The features that may be used with the site, while it is connected."""
        self._http = http
        self._tls = tls
        self._proof = proof
        self._fresh_proof = ""
        """To leave with the next frame."""
        self._user = user
        self._logger = logger
        self._jitter = jitter
        self._outbox: deque[bytes] = deque()
        self._outbox_bytes = 0
        self._to_write = asyncio.Event()
        self._mark: m.Mark | None = None
        """How far the site was with its last frame, if that said so."""
        self._told: m.Mark | None = None
        """How far the site was told that the register is."""
        self._drop = asyncio.Event()
        self._lost = LinkLost("")
        """Why it is dropped."""
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._idle: asyncio.TimerHandle | None = None

    def send(self, message: m.Message) -> None:
        """Send `message` with the next frame; dropped while the site is not connected.

        What the site does not know is left out of it; where that is not possible, the user hears of it.
        """
        if not self.connected:
            return
        said = fitted(message, self._known)
        if isinstance(said, Feature):
            self._user.unsaid(self.name, message, said)
            return
        packed = _ENCODER.encode(said)
        self._outbox.append(packed)
        self._outbox_bytes += len(packed)
        if self._outbox_bytes > OUTBOX_BYTES_MAX:
            self.drop()
        if not isinstance(message, m.Forget):
            self._to_write.set()
        elif self._idle is None:
            self._idle = asyncio.get_running_loop().call_later(IDLE_S_MAX, self._to_write.set)

    def drop(self) -> None:
        """Give up this connection and make a new one."""
        self._give_up(LinkLost("the connection was closed: the site reads too slowly"))

    def pause(self) -> None:
        """Give up this connection, because of this broker's own store, and make none until `resume`."""
        self._wanted.clear()
        self._give_up(LinkLost(OWN_STORE, ours=True))

    def resume(self) -> None:
        self._wanted.set()

    def _give_up(self, lost: LinkLost) -> None:
        self._lost = lost
        self._drop.set()

    async def run(self) -> None:
        """Connect, and connect again, for ever."""
        wait_s = RETRY_S_MIN
        logged = before = ""
        failed: dict[str, LinkLost] = {}
        while True:
            await self._wanted.wait()
            self._drop.clear()
            lost, was_up = await self._until_lost()
            if lost.ours:
                self._user.site_lost(self.name, str(lost), ours=True)
                logged = before = ""
                failed.clear()
                wait_s = RETRY_S_MIN if was_up else min(wait_s * 2, RETRY_S_MAX)
                await asyncio.sleep(wait_s * (0.5 + self._jitter() / 2))
                continue
            failed[self._urls[0]] = lost
            self._silences[self._urls[0]] += lost.silent
            self._urls.rotate(-1)
            tried_all = len(failed) == len(self._urls)
            if was_up:
                wait_s = RETRY_S_MIN
            elif not tried_all:
                continue
            reason, unusable = str(lost), lost.unusable
            if not was_up and len(failed) > 1:
                reason = "; ".join(f"{url}: {why}" for url, why in failed.items())
                unusable = all(why.unusable for why in failed.values())
            if was_up or reason != logged:
                logged = reason
                self._logger.warning("site_lost", site=self.name, reason=reason)
            # One refusal alone may be for a clock that has been set right since.
            self._user.site_lost(self.name, reason, unusable=unusable and reason == before)
            before = reason
            if not tried_all:
                continue
            failed.clear()
            await asyncio.sleep(wait_s * (0.5 + self._jitter() / 2))
            wait_s = min(wait_s * 2, RETRY_S_MAX)

    async def _until_lost(self) -> tuple[LinkLost, bool]:
        """Keep one connection; return why it ended, and whether the site was connected."""
        lost = LinkLost("it has ended")
        try:
            await self._connection()
        except LinkLost as error:
            lost = error
        except Exception as error:
            # The boundary of one connection: whatever it met, the next one is made.
            self._logger.error("link_failed", site=self.name, exc_info=error)
            lost = LinkLost(f"a fault of this broker: {error!r}")
        finally:
            was_up = self.connected
            self._close()
        return lost, was_up

    def _close(self) -> None:
        self.connected = False
        self._outbox.clear()
        self._outbox_bytes = 0
        self._fresh_proof = ""
        self._told = None
        self._to_write.clear()
        self._drop.clear()
        self._no_longer_idle()

    def _no_longer_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    async def look(self) -> m.Hello:
        """Return what the site says of itself, without keeping a connection.

        Raises `LinkLost` where none of its addresses answers, or one is of another site.
        """
        failed: list[str] = []
        for _ in range(len(self._urls)):
            try:
                return await self._glance()
            except LinkLost as error:
                failed.append(f"{self._urls[0]}: {error}")
            self._urls.rotate(-1)
        raise LinkLost("; ".join(failed))

    async def _glance(self) -> m.Hello:
        socket = await self._opened()
        try:
            self._version_of(socket)
            return (await self._hello(socket))[0]
        finally:
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                async with asyncio.timeout(CLOSE_S_MAX):
                    await socket.close()

    async def _opened(self) -> aiohttp.ClientWebSocketResponse[bool]:
        address = self._urls[0].rstrip("/") + SESSION_PATH
        patience_s = SILENT_CONNECT_S * self._silences[self._urls[0]] or CONNECT_S_MAX
        try:
            async with asyncio.timeout(min(patience_s, CONNECT_S_MAX)):
                return await self._http.ws_connect(
                    address,
                    headers={**self._proof.headers(), **self._version.headers()},
                    heartbeat=HEARTBEAT_S,
                    max_msg_size=limits.FRAME_BYTES_MAX,
                    ssl=self._tls,
                    proxy=proxy_url(address),
                )
        except TimeoutError:
            raise LinkLost("it does not answer", silent=True) from None
        except aiohttp.WSServerHandshakeError as error:
            if error.status == NOT_AUTHENTICATED and error.headers is not None:
                self._proof.refused(error.headers.get("Date", ""))
            raise LinkLost(_refusal(error), unusable=error.status in NOT_TRUSTED) from error
        except (aiohttp.ClientError, OSError) as error:
            reason = f"it cannot be reached: {_reason(error)}"
            raise LinkLost(reason, unusable=_untrusted(error)) from error

    async def _connection(self) -> None:
        """One connection from its beginning to its end, which is always a `LinkLost`."""
        socket = await self._opened()
        tasks = [
            asyncio.create_task(self._read(socket)),
            asyncio.create_task(self._write(socket)),
            asyncio.create_task(self._dropped()),
            asyncio.create_task(self._prove()),
        ]
        if self._silent_s_max is not None:
            tasks.append(asyncio.create_task(self._ping(socket)))
        close_s_max = CLOSE_S_MAX
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        except LinkLost as lost:
            if lost.silent:
                close_s_max = CLOSE_SILENT_S_MAX
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # aiohttp waits anew for each message of a peer that goes on talking.
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                async with asyncio.timeout(close_s_max):
                    await socket.close()

    def _version_of(self, socket: aiohttp.ClientWebSocketResponse[bool]) -> ServerVersion:
        """Return the version of the site, with what both know; raises `LinkLost` if too old, or unclear."""
        try:
            theirs = version_in(answer_headers(socket))
            known = agreed(self._version, theirs, "this broker", f"site {self.name}")
        except (InvalidInput, Conflict) as error:
            raise LinkLost(error.detail, unusable=True) from error
        return ServerVersion(theirs.number, known)

    async def _hello(
        self, socket: aiohttp.ClientWebSocketResponse[bool]
    ) -> tuple[m.Hello, m.FrameToBroker]:
        """Return what the site says first, and the frame with it."""
        try:
            async with asyncio.timeout(HELLO_S_MAX):
                frame = await self._frame(socket)
        except TimeoutError:
            raise LinkLost("it did not identify itself") from None
        hello = frame.messages[0] if frame.messages else None
        if not isinstance(hello, m.Hello) or hello.site != self.name:
            said = f"site {hello.site!r}" if isinstance(hello, m.Hello) else "not a site"
            self._logger.error("wrong_site", site=self.name, url=self._urls[0], is_=said)
            raise LinkLost(f"its address leads to {said}", unusable=True)
        return hello, frame

    async def _read(self, socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        version = self._version_of(socket)
        self._known = version.features
        self._user.site_version(self.name, version)
        hello, frame = await self._hello(socket)
        messages = self._heard(frame)
        try:
            welcome = await self._user.welcome(self.name)
        except Unavailable as error:
            raise LinkLost(error.detail, ours=True) from error
        self.connected = True
        self._silences.pop(self._urls[0], None)
        self._user.site_reached(self.name, self._urls[0])
        self.send(welcome)
        self._logger.info("site_connected", site=self.name, url=self._urls[0], epoch=hello.epoch)
        while True:
            await self._user.site_said(self.name, messages)
            if self._mark is not None:
                self._user.site_at(self.name, self._mark)
            messages = self._heard(await self._frame(socket))

    async def _frame(self, socket: aiohttp.ClientWebSocketResponse[bool]) -> m.FrameToBroker:
        try:
            message = await socket.receive(self._silent_s_max)
        except TimeoutError:
            raise LinkLost(f"nothing came from it for {SILENT_S_MAX:g} s", silent=True) from None
        if message.type is not aiohttp.WSMsgType.BINARY:
            if socket.close_code == aiohttp.WSCloseCode.ABNORMAL_CLOSURE:
                raise LinkLost(BROKE)
            code = f" ({socket.close_code})" if socket.close_code else ""
            reason = f": {message.extra}" if message.extra else ""
            raise LinkLost(f"the connection was closed{code}{reason}")
        try:
            frame = codec.decode_frame(message.data, _DECODER)
        except (InvalidInput, TooLarge) as error:
            self._logger.error("not_a_frame", site=self.name, detail=str(error))
            raise LinkLost("it sent something that is not a frame") from error
        if frame.source != self.name:
            raise LinkLost(f"it sent a frame of {frame.source}")
        return frame

    def _heard(self, frame: m.FrameToBroker) -> Sequence[m.Message]:
        self._user.heard_clocks(self.name, frame.lc, frame.wall_ms)
        self._mark = frame.mark
        return frame.messages

    async def _write(self, socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        while True:
            await self._to_write.wait()
            self._to_write.clear()
            self._no_longer_idle()
            count = len(self._outbox)
            for frame in self._frames():
                try:
                    await socket.send_bytes(frame)
                except (aiohttp.ClientError, OSError) as error:
                    raise LinkLost(f"the connection broke: {_reason(error)}") from error
            if count > 1:
                await asyncio.sleep(min((count - 1) * SPACING_PER_MESSAGE_S, SPACING_S_MAX))

    def _frames(self) -> Iterator[bytes]:
        """All that waits, in as few frames as the limits allow."""
        while self._outbox or self._fresh_proof:
            proof, self._fresh_proof = self._fresh_proof, ""
            count = codec.messages_in_frame(
                map(len, self._outbox), _FRAME_HEAD_BYTES_MAX + len(proof)
            )
            taken = [msgspec.Raw(self._outbox.popleft()) for _ in range(count)]
            self._outbox_bytes -= sum(map(len, taken))
            logical, wall_ms = self._user.clocks()
            mark = self._user.mark(self.name)
            told, self._told = self._told, mark
            news = mark if mark != told else None
            frame = _FrameOut(m.WIRE_VERSION, self._source, logical, taken, wall_ms, proof, news)
            yield _ENCODER.encode(frame)

    async def _ping(self, socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        """Let the site answer again and again, for as long as the connection lasts."""
        while True:
            await asyncio.sleep(PING_EVERY_S)
            with contextlib.suppress(aiohttp.ClientError, OSError):
                await socket.ping()

    async def _prove(self) -> None:
        """Keep being believed for as long as the connection lasts."""
        while True:
            await asyncio.sleep(PROVE_EVERY_S)
            self._fresh_proof = self._proof.token()
            if self._fresh_proof:
                self._to_write.set()

    async def _dropped(self) -> None:
        await self._drop.wait()
        raise self._lost


def _refusal(error: aiohttp.WSServerHandshakeError) -> str:
    """Return the reason for a refused session from the proxy in front of the site, if it gave one."""
    why = error.headers.get(WHY_HEADER, "")[:WHY_CHARS_MAX] if error.headers else ""
    if why and why.isprintable():
        return why
    if error.status in NOT_TRUSTED:
        return f"it does not trust this broker's key, or not for a broker (status {error.status})"
    return f"it refuses the broker with status {error.status}"


def _reason(error: Exception) -> str:
    """Return the fault of a connection in words for users, without addresses and internals."""
    cause = _cause(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {cause.verify_message}"
    if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
        return os.strerror(cause.errno).lower()
    return broken_words(cause)


def _untrusted(error: Exception) -> bool:
    return isinstance(_cause(error), ssl.SSLCertVerificationError)


def _cause(error: Exception) -> Exception:
    found = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
    return found if isinstance(found, Exception) else error
