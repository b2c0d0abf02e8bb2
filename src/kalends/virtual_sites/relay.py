"""The way to the members of a virtual site: what comes for one is handed on as it is, and so are its answers.

A member decides itself whom it believes: tokens pass unchanged, and nothing is said for anybody. A header
tells through which virtual sites something has come, so that what goes round in a circle is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import aiohttp
from aiohttp import WSCloseCode, WSMsgType, web
from yarl import URL

from kalends.core import limits
from kalends.core.errors import Conflict, NotFound, OutcomeUnknown, Unavailable
from kalends.core.intervals import Moment
from kalends.serving.auth.callers import GROUPS_HEADER, USER_HEADER, asked_on_loopback
from kalends.serving.auth.peer_auth import trust_in
from kalends.serving.configuration import MemberConfiguration
from kalends.serving.http.application import open_socket
from kalends.serving.http.rate_limits import ServingLimits
from kalends.serving.http.request_fields import read_body
from kalends.serving.http.sessions import close_reason
from kalends.virtual_sites.overheard import Overheard

MEMBERS_PATH: Final = "/v1/members"
ROUTE: Final = MEMBERS_PATH + "/{member}/{rest:.+}"
SESSION_END: Final = "v1/session"
"""How the address of a member's sessions with brokers ends."""

WAY_HEADER: Final = "Kalends-Way"
"""The virtual sites that something has come through, the first one first."""

ASKED: Final = ("Accept", "Authorization", "Content-Type")
ANSWERED: Final = (
    "Allow", "Cache-Control", "Content-Type", "Date", "Retry-After", "Server", "WWW-Authenticate",
    "X-Content-Type-Options",
)  # fmt: skip
"""Headers that are handed on; all others are between two servers alone."""

CONNECT_S_MAX: Final = 5.0
SILENT_S_MAX: Final = 600.0
"""The longest that a member is waited for: longer than anything that its calls wait for."""
HEARTBEAT_S: Final = 10.0

GONE: Final = "the other side is gone"
STOPPING: Final = "the virtual site is stopping"

Hear = Callable[[bytes], None]


class Members:
    """The `members` of the virtual site `name`, and all that is under way to them.

    `access_is_open`: everybody here is on this host, and who they say they are.

    Raises `InvalidInput` for an authority's file that cannot be used.
    """

    def __init__(
        self,
        name: str,
        members: Sequence[MemberConfiguration],
        overheard: Overheard,
        moment: Callable[[], Moment],
        serving_limits: ServingLimits,
        *,
        access_is_open: bool,
    ) -> None:
        self._name = name
        self._access_is_open = access_is_open
        self._urls = {each.name: each.url.rstrip("/") for each in members}
        self._trust: Mapping[str, ssl.SSLContext | bool] = {
            each.name: trust_in(each.ca, f"virtual.members.{each.name}.ca") for each in members
        }
        self._overheard = overheard
        self._moment = moment
        self._limits = serving_limits
        self._http: aiohttp.ClientSession | None = None
        self._sockets: dict[web.WebSocketResponse, None] = {}
        self._closing: list[asyncio.Task[bool]] = []

    async def start(self, application: web.Application) -> None:
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_S_MAX, sock_read=SILENT_S_MAX
            ),
            auto_decompress=False,
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
        member = request.match_info["member"]
        if member not in self._urls:
            raise NotFound(
                f"{self._name} has no member {member!a}",
                where="member",
                remedy=f"its members are {', '.join(self._urls)}",
            )
        rest = request.match_info["rest"].split("/")
        if (rest[0] != "v1" and rest != ["healthz"]) or not {"", ".", ".."}.isdisjoint(rest):
            raise NotFound("no such path", where=member)
        raw = request.raw_path.partition(f"{MEMBERS_PATH}/")[2].partition("/")[2]
        url = URL(f"{self._urls[member]}/{raw}", encoded=True)
        headers = {name: value for name in ASKED if (value := request.headers.get(name))}
        # Who has come from outside is not believed at members that believe everybody on their host.
        if self._access_is_open and asked_on_loopback(request.headers):
            names = (USER_HEADER, GROUPS_HEADER)
            headers |= {name: value for name in names if (value := request.headers.get(name))}
        headers[WAY_HEADER] = self._way(request)
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._session(request, member, url, headers)
        return await self._call(request, member, url, headers)

    def _way(self, request: web.Request) -> str:
        """Return the way so far, this virtual site included; raises `Conflict` for a circle."""
        said = request.headers.get(WAY_HEADER, "")
        way = [*(each.strip() for each in said.split(",") if each.strip()), self._name]
        if len(set(way)) < len(way) or len(way) > limits.NESTED_MAX:
            raise Conflict(
                f"{' -> '.join(way)} leads nowhere",
                where=WAY_HEADER,
                remedy="a virtual site must not be below itself, nor more than"
                f" {limits.NESTED_MAX} one below the other",
            )
        return ", ".join(way)

    # Calls

    async def _call(
        self, request: web.Request, member: str, url: URL, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        body = await read_body(request, self._limits)
        try:
            async with self._client.request(
                request.method, url, data=body or None, headers=headers, ssl=self._trust[member],
                allow_redirects=False,
            ) as answer:  # fmt: skip
                return await self._handed_back(request, answer)
        except aiohttp.ClientConnectorError as error:
            raise self._out_of_reach(member) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise OutcomeUnknown(
                f"the connection to {member} broke",
                where=member,
                remedy="repeat the call with the same key, or look what has become of it",
            ) from error

    async def _handed_back(
        self, request: web.Request, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=_handed_on(answer.headers))
        if answer.content_length is not None:
            response.content_length = answer.content_length
        await response.prepare(request)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
        return response

    # Sessions

    async def _session(
        self, request: web.Request, member: str, url: URL, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                theirs = await self._client.ws_connect(
                    url, headers=headers, heartbeat=HEARTBEAT_S, ssl=self._trust[member],
                    max_msg_size=self._limits.frame_bytes_max,
                )  # fmt: skip
        except aiohttp.WSServerHandshakeError as error:
            return web.Response(status=error.status, headers=_handed_on(error.headers or {}))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._out_of_reach(member) from error
        try:
            ours = await open_socket(request, self._limits)
            self._sockets[ours] = None
            try:
                await self._listen(ours, theirs, member, self._way_of_session(member, url))
            finally:
                self._sockets.pop(ours, None)
        finally:
            await theirs.close()
        return ours

    async def _listen(self, ours: _Socket, theirs: _Socket, member: str, way: str) -> None:
        """Pass on what both say, and hear it where it is a session of a broker: then there is a `way`."""

        def said_to(frame: bytes) -> None:
            if way:
                self._overheard.said_to(way, frame, self._moment())

        def said_by(frame: bytes) -> None:
            if way:
                self._overheard.said_by(way, frame, self._moment())

        self._overheard.sessions[way] += 1
        both = [
            asyncio.create_task(_pass_on(ours, theirs, said_to, GONE)),
            asyncio.create_task(
                _pass_on(theirs, ours, said_by, f"the connection to {member} broke")
            ),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._overheard.sessions[way] -= 1
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    def _way_of_session(self, member: str, url: URL) -> str:
        """Return the way to the member at the end; "" where this is no session of a broker."""
        path = url.path.removeprefix(URL(self._urls[member]).path).strip("/")
        below, end, rest = path.rpartition(SESSION_END)
        if not end or rest:
            return ""
        # v1/members/NAME/v1/members/NAME/
        return "/".join([member, *below.split("/")[2::3]]).rstrip("/")

    @property
    def _client(self) -> aiohttp.ClientSession:
        if self._http is None or self._http.closed:
            raise Unavailable(STOPPING, retry_after_s=1.0)
        return self._http

    def _out_of_reach(self, member: str) -> Unavailable:
        return Unavailable(
            f"{member} cannot be reached from {self._name}", where=member, retry_after_s=1.0
        )


_Socket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse[bool]


async def _pass_on(source: _Socket, target: _Socket, hear: Hear, broke: str) -> None:
    """Hand on messages until either side ends, and then the end; `broke` says why where nobody has."""
    code, reason = WSCloseCode.GOING_AWAY.value, broke
    while True:
        message = await source.receive()
        try:
            if message.type is WSMsgType.BINARY:
                hear(message.data)
                await target.send_bytes(message.data)
                continue
            if message.type is WSMsgType.TEXT:
                await target.send_str(message.data)
                continue
        except (aiohttp.ClientError, ConnectionError):
            return
        if message.type is WSMsgType.CLOSE and isinstance(message.data, int):
            code, reason = message.data, message.extra or ""
        break
    with contextlib.suppress(aiohttp.ClientError, ConnectionError):
        await target.close(code=code, message=close_reason(reason))


def _handed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name] for name in ANSWERED if name in headers}
