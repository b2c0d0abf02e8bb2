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
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from kalends.serving.auth.peer_auth import Proof
from kalends.serving.auth.session_proof import PROVE_EVERY_S
from kalends.serving.logs import Logger

NOT_AUTHENTICATED: Final = 401
NOT_TRUSTED: Final = (NOT_AUTHENTICATED, 403)
HEARTBEAT_S: Final = 10.0
"""A ping this often; a site that does not answer within half of it is lost."""

CONNECT_S_MAX: Final = 10.0
HELLO_S_MAX: Final = 10.0
CLOSE_S_MAX: Final = 10.0
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
    """The connection is over; the text says why. If `unusable`, somebody may have to mend something."""

    def __init__(self, reason: str, *, unusable: bool = False) -> None:
        super().__init__(reason)
        self.unusable = unusable


class LinkUser(Protocol):
    """The user of the links; called on the event loop."""

    def site_said(self, site: str, messages: Sequence[m.Message]) -> None:
        """Messages of a connected site, in order; the first ever of a connection is its Hello."""

    def site_lost(self, site: str, reason: str, *, unusable: bool = False) -> None:
        """The site is not connected (any more); if `unusable`, until somebody mends something."""

    def site_at(self, site: str, mark: m.Mark) -> None:
        """The site's position at its last message."""

    def welcome(self, site: str) -> m.Welcome:
        """Return the first message to a site on a session; raises `Unavailable` without a store."""

    def heard_clocks(self, site: str, logical: int, wall_ms: int) -> None:
        """Take note of the site's clocks; `wall_ms` is 0 when it does not say."""

    def site_version(self, site: str, version: ServerVersion) -> None:
        """The site is being connected, and has this version, with the features that may be used with it."""

    def unsaid(self, site: str, message: m.Message, feature: Feature) -> None:
        """`message` cannot be said to the site, for it does not know `feature`; nothing was sent."""

    def mark(self, site: str) -> m.Mark | None:
        """Return the register's position for the site; None without a store."""

    def clocks(self) -> tuple[int, int]:
        """The logical time to put on a frame, and what the wall clock shows (milliseconds UTC)."""


class SiteLink:
    """The link to site `name` at `url`; `run` keeps it until it is cancelled.

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
        self._address = url.rstrip("/") + SESSION_PATH
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
        self._drop.set()

    async def run(self) -> None:
        """Connect, and connect again, for ever."""
        wait_s = RETRY_S_MIN
        logged = before = ""
        while True:
            was_up = unusable = False
            try:
                await self._connection()
            except LinkLost as lost:
                was_up, reason, unusable = self.connected, str(lost), lost.unusable
            except Exception as error:
                # The boundary of one connection: whatever it met, the next one is made.
                self._logger.error("link_failed", site=self.name, exc_info=error)
                was_up, reason = self.connected, f"a fault of this broker: {error!r}"
            finally:
                self._close()
            if was_up:
                wait_s = RETRY_S_MIN
            if was_up or reason != logged:
                logged = reason
                self._logger.warning("site_lost", site=self.name, reason=reason)
            # One refusal alone may be for a clock that has been set right since.
            self._user.site_lost(self.name, reason, unusable=unusable and reason == before)
            before = reason
            await asyncio.sleep(wait_s * (0.5 + self._jitter() / 2))
            wait_s = min(wait_s * 2, RETRY_S_MAX)

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

    async def _connection(self) -> None:
        """One connection from its beginning to its end, which is always a `LinkLost`."""
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                socket = await self._http.ws_connect(
                    self._address,
                    headers={**self._proof.headers(), **self._version.headers()},
                    heartbeat=HEARTBEAT_S,
                    max_msg_size=limits.FRAME_BYTES_MAX,
                    ssl=self._tls,
                    proxy=proxy_url(self._address),
                )
        except TimeoutError:
            raise LinkLost("it does not answer") from None
        except aiohttp.WSServerHandshakeError as error:
            if error.status == NOT_AUTHENTICATED and error.headers is not None:
                self._proof.refused(error.headers.get("Date", ""))
            raise LinkLost(_refusal(error), unusable=error.status in NOT_TRUSTED) from error
        except (aiohttp.ClientError, OSError) as error:
            reason = f"it cannot be reached: {_reason(error)}"
            raise LinkLost(reason, unusable=_untrusted(error)) from error
        tasks = [
            asyncio.create_task(self._read(socket)),
            asyncio.create_task(self._write(socket)),
            asyncio.create_task(self._dropped()),
            asyncio.create_task(self._prove()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # aiohttp waits anew for each message of a peer that goes on talking.
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                async with asyncio.timeout(CLOSE_S_MAX):
                    await socket.close()

    def _agree(self, said: Mapping[str, str]) -> None:
        """Take what the site says of its version; raises `LinkLost` where that is too old, or unclear."""
        try:
            theirs = version_in(said)
            known = agreed(self._version, theirs, "this broker", f"site {self.name}")
        except (InvalidInput, Conflict) as error:
            raise LinkLost(error.detail, unusable=True) from error
        self._known = known
        self._user.site_version(self.name, ServerVersion(theirs.number, known))

    async def _read(self, socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        self._agree(answer_headers(socket))
        try:
            async with asyncio.timeout(HELLO_S_MAX):
                messages = await self._frame(socket)
        except TimeoutError:
            raise LinkLost("it did not identify itself") from None
        hello = messages[0] if messages else None
        if not isinstance(hello, m.Hello) or hello.site != self.name:
            said = f"site {hello.site!r}" if isinstance(hello, m.Hello) else "not a site"
            self._logger.error("wrong_site", site=self.name, url=self._address, is_=said)
            raise LinkLost(f"its address leads to {said}", unusable=True)
        try:
            welcome = self._user.welcome(self.name)
        except Unavailable as error:
            raise LinkLost(error.detail) from error
        self.connected = True
        self.send(welcome)
        self._logger.info("site_connected", site=self.name, epoch=hello.epoch)
        while True:
            self._user.site_said(self.name, messages)
            if self._mark is not None:
                self._user.site_at(self.name, self._mark)
            messages = await self._frame(socket)

    async def _frame(self, socket: aiohttp.ClientWebSocketResponse[bool]) -> Sequence[m.Message]:
        message = await socket.receive()
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

    async def _prove(self) -> None:
        """Keep being believed for as long as the connection lasts."""
        while True:
            await asyncio.sleep(PROVE_EVERY_S)
            self._fresh_proof = self._proof.token()
            if self._fresh_proof:
                self._to_write.set()

    async def _dropped(self) -> None:
        await self._drop.wait()
        raise LinkLost(
            "the connection was closed: the site reads too slowly, or the broker restarted it"
        )


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
