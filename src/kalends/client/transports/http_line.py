"""One connection that carries one HTTP call at a time: asyncio's streams, and h11 for the protocol.

aiohttp, which does much more, takes longer to load than a whole command of the command line takes to run.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import Final, NamedTuple, Self
from urllib.parse import SplitResult

import h11

from kalends.client.transports.retry import CLOSED, ConnectionFailed
from kalends.client.transports.transport import ANSWER_BYTES_MAX, PROXY_MEND, failure
from kalends.rim.proxies import Proxy, proxy_for

HEAD_BYTES_MAX: Final = 64 * 1024
"""Maximum size of status and headers, and of the framing of a chunk."""

EARLY_ANSWERS_MAX: Final = 8
PIECE_BYTES: Final = 64 * 1024

_CONNECTED: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})")

NEXT_ADDRESS_S: Final = 0.25
"""Seconds until the next address of a host is tried (RFC 8305)."""


class HttpAnswer(NamedTuple):
    """The answer of a server; names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class HttpLine:
    """A connection, `usable` for the next call while both sides keep it open and no error occurred."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        before_target: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._before_target = before_target
        self._headers = headers or {}
        self._said = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)

    @classmethod
    async def opened(cls, server: SplitResult, tls: ssl.SSLContext | None) -> Self:
        """Connect to `server`, through the proxy that the environment names for it.

        Raises `ConnectionFailed`, and `InvalidInput` for a proxy that cannot be used.
        """
        proxy = proxy_for(server.geturl())
        if proxy is None:
            port = server.port or (80 if tls is None else 443)
            return cls(*await _connected(server.hostname, port, tls))
        try:
            reader, writer = await _connected(
                proxy.address.hostname, proxy.address.port or 80, None
            )
        except ConnectionFailed as error:
            raise ConnectionFailed(f"{proxy.name}: {error.detail}", sent=False) from error
        if tls is None:
            origin = f"{server.scheme}://{server.netloc.rpartition('@')[2]}"
            return cls(reader, writer, origin, proxy.headers())
        await _tunnel(reader, writer, proxy, server, tls)
        return cls(reader, writer)

    @property
    def usable(self) -> bool:
        in_step = self._said.states in (
            {h11.CLIENT: h11.IDLE, h11.SERVER: h11.IDLE},
            {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE},
        )
        return in_step and not (self._reader.at_eof() or self._writer.is_closing())

    async def ask(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> HttpAnswer:
        """Send a request, and return its answer; raises `ConnectionFailed`."""
        if self._said.our_state is h11.DONE:
            self._said.start_next_cycle()
        request = h11.Request(
            method=method,
            target=self._before_target + target,
            headers=list((headers | self._headers).items()),
        )
        said = (request, h11.Data(data=body), h11.EndOfMessage())
        try:
            self._writer.write(b"".join(self._said.send(each) or b"" for each in said))
            await self._writer.drain()
            return await read_answer(self._reader, self._said)
        except OSError as error:
            raise failure(error, sent=True) from error

    def drop(self) -> None:
        """Close the connection at once. A call in flight on it fails."""
        self._said.send_failed()
        self._writer.transport.abort()


async def _connected(
    host: str | None, port: int, tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        return await asyncio.open_connection(
            host, port, ssl=tls, happy_eyeballs_delay=NEXT_ADDRESS_S
        )
    except (OSError, UnicodeError) as error:
        # asyncio raises this if there were several addresses, each with its own error.
        if type(error) is OSError and error.errno is None:
            detail = "none of its addresses can be reached"
            raise ConnectionFailed(detail, sent=False) from error
        raise failure(error, sent=False) from error


async def _tunnel(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    proxy: Proxy,
    server: SplitResult,
    tls: ssl.SSLContext,
) -> None:
    """Connect to `server` through `proxy`, and start TLS with it; raises `ConnectionFailed`."""
    host = server.hostname or ""
    host = host if host.isascii() else host.encode("idna").decode()
    named = f"[{host}]:{server.port or 443}" if ":" in host else f"{host}:{server.port or 443}"
    lines = [f"CONNECT {named} HTTP/1.1", f"Host: {named}"]
    lines += [f"{name}: {value}" for name, value in proxy.headers().items()]
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        if not (status := _CONNECTED.match(answer)) or not status[1].startswith(b"2"):
            told = status[1].decode() if status else "no HTTP"
            raise ConnectionFailed(
                f"{proxy.name} does not connect to {named} ({told})", sent=False, mend=PROXY_MEND
            )
        await writer.start_tls(tls, server_hostname=host)
    except ConnectionFailed:
        writer.transport.abort()
        raise
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        writer.transport.abort()
        raise ConnectionFailed(f"{proxy.name} gives no answer", sent=False) from error
    except OSError as error:
        writer.transport.abort()
        raise failure(error, sent=False) from error


async def read_answer(reader: asyncio.StreamReader, said: h11.Connection) -> HttpAnswer:
    """Return the next answer; raises `ConnectionFailed`, and `OSError` if the connection breaks."""
    status, headers, body = 0, dict[str, str](), bytearray()
    early, piece = 0, b"."
    try:
        while True:
            event = said.next_event()
            if event is h11.NEED_DATA:
                piece = await reader.read(PIECE_BYTES)
                said.receive_data(piece)
            elif isinstance(event, h11.InformationalResponse):
                early += 1
                if early >= EARLY_ANSWERS_MAX:
                    raise _damaged()
            elif isinstance(event, h11.Response):
                status = event.status_code
                headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
                _check_size(int(headers.get("content-length", "0")))
            elif isinstance(event, h11.Data):
                body += event.data
                _check_size(len(body))
            elif isinstance(event, h11.EndOfMessage):
                return HttpAnswer(status, headers, bytes(body))
            else:
                raise _closed()
    except h11.RemoteProtocolError as error:
        if piece and not status:
            detail = "the server does not speak HTTP, or the answer was damaged in transit"
            raise ConnectionFailed(detail, sent=True) from error
        raise (_damaged() if piece else _closed()) from error


def _check_size(size: int) -> None:
    if size > ANSWER_BYTES_MAX:
        raise ConnectionFailed(f"the answer has more than {ANSWER_BYTES_MAX} bytes", sent=True)


def _damaged() -> ConnectionFailed:
    return ConnectionFailed("the answer was damaged in transit", sent=True)


def _closed() -> ConnectionFailed:
    return ConnectionFailed(CLOSED, sent=True)
