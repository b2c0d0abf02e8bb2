"""Calls over plain HTTP, as the command line makes them: one request each, bodies in MessagePack."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from kalends.client.transports.http_line import HttpAnswer, HttpLine
from kalends.client.transports.retry import ConnectionFailed
from kalends.client.transports.transport import (
    ANSWER_BYTES_MAX,
    SAID,
    Access,
    error_from_server,
    error_from_status,
    retry_after_s,
)
from kalends.contract import codec
from kalends.contract.bodies import Body
from kalends.contract.calls import Operation
from kalends.core import limits
from kalends.core.errors import InvalidInput, KalendsError, Problem

if TYPE_CHECKING:
    import aiohttp

_SAFE: Final = "/%:@!$&'()*+,;=~?"
"""Characters that are not escaped in a path."""


class HttpTransport:
    """A `Transport` over HTTP, one for each event loop; connections are kept and shared.

    `connect_s` is the maximum time of opening a connection; None: that of the call.
    """

    def __init__(self, access: Access, connect_s: float | None = None) -> None:
        self._connect_s = connect_s
        self._access = access
        self._server = urlsplit(access.url)
        self._tls = _context(access.tls()) if self._server.scheme == "https" else None
        self._lines: set[HttpLine] = set()
        self._idle: list[HttpLine] = []
        self._closed = False
        self._sockets: aiohttp.ClientSession | None = None
        named = access.headers() | {"Accept": codec.MSGPACK, "User-Agent": "kalends"} | SAID
        self._headers = {"Host": _host(self._server.netloc), **named}

    async def call(self, operation: Operation, body: Body, timeout_s: float) -> Any:
        fields = msgspec.to_builtins(body)
        path = _fill(operation.path, fields)
        data, headers = b"", dict(self._headers)
        if operation.method == "POST":
            data = codec.encode_msgpack(fields)
            codec.check_size(data, limits.BODY_BYTES_MAX)
            headers |= {"Content-Type": codec.MSGPACK, "Content-Length": str(len(data))}
        url = self._access.address(path)
        target = quote(urlsplit(url)._replace(scheme="", netloc="").geturl(), safe=_SAFE)
        answer = await self._ask((operation.method, target, headers, data), timeout_s)
        return _understood(answer, url)

    async def open_socket(self, path: str) -> aiohttp.ClientWebSocketResponse[bool]:
        # Imported here because it takes long to load, and few commands need a WebSocket.
        from kalends.client.transports import sockets

        if self._sockets is None:
            self._sockets = sockets.socket_session(self._access)
        return await sockets.open_socket(self._sockets, self._access, path)

    async def close(self) -> None:
        self._closed = True
        for line in self._lines:
            line.drop()
        if self._sockets is not None:
            await self._sockets.close()

    def abandon(self) -> None:
        if self._sockets is not None:
            self._sockets.detach()

    async def _ask(
        self, request: tuple[str, str, dict[str, str], bytes], timeout_s: float
    ) -> HttpAnswer:
        line: HttpLine | None = None
        try:
            async with asyncio.timeout(timeout_s):
                async with asyncio.timeout(self._connect_s):
                    line = await self._line()
                return await line.ask(*request)
        except TimeoutError as error:
            waited_s = (
                timeout_s if line is not None else min(timeout_s, self._connect_s or timeout_s)
            )
            detail = f"no answer within {waited_s:.0f} s"
            raise ConnectionFailed(detail, sent=line is not None) from error
        finally:
            if line is not None:
                self._give_back(line)

    async def _line(self) -> HttpLine:
        """Return an idle connection; raises `ConnectionFailed`."""
        while self._idle:
            line = self._idle.pop()
            if line.usable:
                return line
            self._drop(line)
        line = await HttpLine.opened(self._server, self._tls)
        self._lines.add(line)
        return line

    def _give_back(self, line: HttpLine) -> None:
        if line.usable and not self._closed:
            self._idle.append(line)
        else:
            self._drop(line)

    def _drop(self, line: HttpLine) -> None:
        line.drop()
        self._lines.discard(line)


def _context(tls: ssl.SSLContext | bool) -> ssl.SSLContext:
    return tls if isinstance(tls, ssl.SSLContext) else ssl.create_default_context()


def _host(netloc: str) -> str:
    """Return the Host header for an address: its host and port, without a user."""
    host = netloc.rpartition("@")[2]
    return host if host.isascii() else host.encode("idna").decode()


def _fill(path: str, fields: dict[str, Any]) -> str:
    """Fill the ``{field}`` parts of `path` from `fields`."""
    for name in [name for name in fields if f"{{{name}}}" in path]:
        path = path.replace(f"{{{name}}}", fields.pop(name))
    return path


def _understood(answer: HttpAnswer, url: str) -> Any:
    """Return the answer's plain values; raises the error that the server answered."""
    try:
        if answer.status == 200 and answer.content_type == codec.MSGPACK:
            return codec.decode_msgpack(answer.body, object, bytes_max=ANSWER_BYTES_MAX)
        problem = _problem(answer)
    except InvalidInput as error:
        raise ConnectionFailed("the answer was damaged in transit", sent=True) from error
    wait_s = retry_after_s(answer.headers.get("retry-after"))
    if problem is not None:
        if wait_s > problem.retry_after_s:
            problem = msgspec.structs.replace(problem, retry_after_s=wait_s)
        raise error_from_server(problem)
    raise _without_problem(answer.status, url, wait_s)


def _problem(answer: HttpAnswer) -> Problem | None:
    if answer.content_type == codec.PROBLEM_MSGPACK:
        return codec.decode_msgpack(answer.body, Problem, bytes_max=ANSWER_BYTES_MAX)
    if answer.content_type == codec.PROBLEM_JSON:
        return codec.decode_json(answer.body, Problem, bytes_max=ANSWER_BYTES_MAX)
    return None


def _without_problem(status: int, url: str, wait_s: float) -> KalendsError | ConnectionFailed:
    """Return the error for an answer without problem details, as a proxy gives it."""
    if status in (502, 504):
        return ConnectionFailed(f"a gateway before the server failed ({status})", sent=True)
    return error_from_status(status, url, wait_s)
