"""Relay to the members of a virtual site: messages and their answers are passed on unchanged.

A member decides itself whom it believes: tokens pass unchanged, and nothing is said for anybody. A header
tells through which virtual sites something has come, so that what goes round in a circle is refused.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import aiohttp
import msgspec
from aiohttp import WSCloseCode, web
from multidict import CIMultiDict
from yarl import URL

from kalends.contract.paths import MEMBERS_PATH, PEERS_PATH, SESSION_PATH, VISITS_PATH, WHY_HEADER
from kalends.contract.versions import VERSION_HEADERS
from kalends.core.errors import KalendsError, LimitExceeded, OutcomeUnknown, Unavailable
from kalends.core.intervals import Moment
from kalends.rim.proxies import proxy_url
from kalends.rim.redirects import answer_headers, refused_redirects
from kalends.serving.auth.callers import USER_HEADER
from kalends.serving.http.application import (
    check_server,
    connections_of,
    in_flight,
    open_socket,
)
from kalends.serving.http.problem_answers import refused_session
from kalends.serving.http.rate_limits import ServingLimits
from kalends.serving.http.request_fields import read_body
from kalends.virtual_sites.members import Members
from kalends.virtual_sites.overheard import Overheard
from kalends.virtual_sites.relayed_sessions import GONE, closed, joined

ROUTE: Final = MEMBERS_PATH + "/{member}/{rest:.+}"

ANSWERED: Final = (
    "Allow", "Cache-Control", "Content-Encoding", "Content-Type", "Date", "Retry-After", "Server",
    "WWW-Authenticate", "X-Content-Type-Options", WHY_HEADER, *VERSION_HEADERS,
)  # fmt: skip
"""Headers of answers that are handed on."""

BODY_BYTES_MAX: Final = 1024 * 1024
"""As much as any call to a site: an agent that is passed on to a near one."""

STRANGERS_BODY_BYTES_MAX: Final = 4_096
"""The largest body of a call without a token, which is a question of a peer."""

CONNECT_S_MAX: Final = 5.0
SILENT_S_MAX: Final = 600.0
"""The longest that a member is waited for: longer than anything that its calls wait for."""

OPEN_TO_ALL: Final = ("healthz", "openapi.json")
"""How the addresses of calls end that prove nothing of their caller."""

FOR_SERVERS: Final = (SESSION_PATH, PEERS_PATH, VISITS_PATH)
"""How those end that other servers call: members see our certificate, and we must see that of who calls."""

CALLS_MAX: Final = 500
"""Under way to one member: one that hangs must not use up what others need."""

LOOK_EVERY_S: Final = 1.0
"""Whether the caller is still there."""

HEARTBEAT_S: Final = 10.0
STOPPING: Final = "the virtual site is stopping"


class MemberRelay:
    """All that is under way to `members`; `overheard` listens to sessions of brokers."""

    def __init__(
        self,
        members: Members,
        overheard: Overheard,
        moment: Callable[[], Moment],
        limits: ServingLimits,
    ) -> None:
        self._members = members
        self._overheard = overheard
        self._moment = moment
        self._limits = limits
        self._http: aiohttp.ClientSession | None = None
        self._calls: Counter[str] = Counter()
        self._sockets: dict[web.WebSocketResponse, None] = {}
        self._closing: list[asyncio.Task[bool]] = []

    async def start(self, application: web.Application) -> None:
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            # What a member's front door wants to be remembered of one caller is nobody else's.
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_S_MAX, sock_read=SILENT_S_MAX
            ),
            skip_auto_headers=("Accept", "Content-Type", "User-Agent"),
            auto_decompress=False,
            trace_configs=[refused_redirects()],
        )

    async def stop(self, application: web.Application) -> None:
        await asyncio.gather(*self._closing, return_exceptions=True)
        if self._http is not None:
            await self._http.close()

    def begin_stop(self) -> None:
        """Sessions are closed as going away; both ends connect again."""
        for socket in self._sockets:
            closing = socket.close(code=WSCloseCode.GOING_AWAY, message=STOPPING.encode())
            self._closing.append(asyncio.create_task(closing))

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Hand one call on, or one session; raises what becomes a problem."""
        if f"/{request.match_info['rest']}".endswith(FOR_SERVERS):
            check_server(request)
        if request.headers.get("Upgrade", "").lower() == "websocket" and request.method == "GET":
            try:
                return await self._session(request)
            except KalendsError as error:
                return refused_session(error)
        member, url = self._members.url(request)
        if self._calls[member] >= CALLS_MAX:
            raise LimitExceeded(
                f"{CALLS_MAX} calls to {member} are under way, the maximum",
                retry_after_s=1.0,
            )
        self._calls[member] += 1
        try:
            return await _while_there(
                request, self._call(request, member, url, self._members.headers(request))
            )
        finally:
            self._calls[member] -= 1

    # Calls

    async def _call(
        self, request: web.Request, member: str, url: URL, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        stranger = headers.keys().isdisjoint({"Authorization", USER_HEADER})
        most = STRANGERS_BODY_BYTES_MAX if stranger else BODY_BYTES_MAX
        body = await read_body(request, msgspec.structs.replace(self._limits, body_bytes_max=most))
        response = None
        try:
            async with self._client.request(
                request.method, url, data=body or None, headers=headers,
                ssl=self._members.trust[member], proxy=proxy_url(str(url)), allow_redirects=False,
            ) as answer:  # fmt: skip
                self._members.reached(member)
                if answer.ok and not stranger and url.name not in OPEN_TO_ALL:
                    connections_of(request.app).known(request.transport)
                response = web.StreamResponse(
                    status=answer.status, headers=_handed_back(answer.headers)
                )
                response.content_length = answer.content_length
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if response is not None:
                # Part of an answer has left: all that can be said is that there is no more of it.
                if request.transport is not None:
                    request.transport.abort()
                return response
            if isinstance(error, aiohttp.ClientConnectorError):
                raise self._members.out_of_reach(member, error) from error
            again = "by the same key" if request.method == "POST" else "again"
            raise OutcomeUnknown(
                f"the connection to {member} broke", where=member, remedy=f"ask {again}"
            ) from error

    # Sessions

    async def _session(self, request: web.Request) -> web.StreamResponse:
        member, url = self._members.url(request)
        headers = self._members.headers(request)
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                theirs = await self._client.ws_connect(
                    url, headers=headers, heartbeat=HEARTBEAT_S, ssl=self._members.trust[member],
                    max_msg_size=self._limits.frame_bytes_max, proxy=proxy_url(str(url)),
                )  # fmt: skip
        except aiohttp.WSServerHandshakeError as error:
            if error.status < 400:
                raise self._members.out_of_reach(member, error) from error
            return web.Response(status=error.status, headers=_handed_back(error.headers or {}))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._members.out_of_reach(member, error) from error
        self._members.reached(member)
        try:
            said = answer_headers(theirs)
            told = {name: said[name] for name in VERSION_HEADERS if name in said}
            ours = await open_socket(request, self._limits, told)
            # The member has let it in: strangers make room for it.
            connections_of(request.app).known(request.transport)
            self._sockets[ours] = None
            try:
                if not await self._join(ours, theirs, member, url) and request.transport:
                    request.transport.abort()
            finally:
                self._sockets.pop(ours, None)
        finally:
            await closed(theirs, GONE)
        return ours

    async def _join(
        self,
        ours: web.WebSocketResponse,
        theirs: aiohttp.ClientWebSocketResponse[bool],
        member: str,
        url: URL,
    ) -> bool:
        """Pass on what both say, and hear it where it is a session of a broker."""
        if not (way := self._way(member, url)):
            return await joined(ours, theirs, _nobody, _nobody, member, self._limits.send_s_max)
        with self._overheard.session(way) as session:
            return await joined(
                ours, theirs,
                lambda frame: session.said_to(frame, self._moment()),
                lambda frame: session.said_by(frame, self._moment()),
                member, self._limits.send_s_max,
            )  # fmt: skip

    def _way(self, member: str, url: URL) -> str:
        """Return the way to the member at the end of a broker's session; "" where this is none."""
        path = url.path.removeprefix(URL(self._members.urls[member]).path).strip("/")
        below, end, rest = path.rpartition(SESSION_PATH[1:])
        if not end or rest:
            return ""
        # v1/members/NAME/v1/members/NAME/
        return "/".join([member, *below.split("/")[2::3]]).rstrip("/")

    @property
    def _client(self) -> aiohttp.ClientSession:
        if self._http is None or self._http.closed:
            raise Unavailable(STOPPING, retry_after_s=1.0)
        return self._http


async def _while_there(
    request: web.Request, work: Coroutine[Any, Any, web.StreamResponse]
) -> web.StreamResponse:
    """Return the answer; give up when nobody is there any more to hear it."""
    task = in_flight(request, work)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=LOOK_EVERY_S)
            if request.transport is None or request.transport.is_closing():
                break
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    if task.cancelled():
        raise ConnectionResetError("the caller has left")
    return task.result()


def _nobody(frame: bytes) -> None:
    """Hear nothing."""


def _handed_back(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict((name, headers[name]) for name in ANSWERED if name in headers)
