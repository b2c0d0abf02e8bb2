"""A line to a server that can be cut: what is connected breaks, and whoever connects again gets through."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit


class CutLine:
    """Passes bytes on from a port of its own to the server at `url`, or from a socket `at` to another one."""

    def __init__(self, url: str = "", *, at: Path | None = None, to: Path | None = None) -> None:
        self._to = urlsplit(url)
        self._at_socket, self._to_socket = at, to
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None] | None] = set()
        self._passing = asyncio.Event()
        self._passing.set()
        self.url = ""
        self.passed = 0
        """Connections so far."""
        self.answers_to_lose = 0
        """So many answers are not passed on: the connection breaks in the place of each."""

    async def start(self) -> None:
        if self._at_socket is not None:
            self._server = await asyncio.start_unix_server(self._connected, self._at_socket)
            self._at_socket.chmod(0o777)
            return
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    def cut(self) -> None:
        """Break all that is connected, in both directions, without a word."""
        for writer in list(self._writers):
            writer.transport.abort()

    def hold(self) -> None:
        """Pass nothing on, and break nothing: both sides hear nothing of each other."""
        self._passing.clear()

    def release(self) -> None:
        """Pass on again, with what was sent meanwhile."""
        self._passing.set()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.release()
        self.cut()
        await asyncio.gather(*filter(None, self._connections))

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.passed += 1
        this = asyncio.current_task()
        self._connections.add(this)
        try:
            await self._connect(reader, writer)
        finally:
            self._connections.discard(this)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._passing.wait()
        try:
            if self._to_socket is not None:
                there, back = await asyncio.open_unix_connection(self._to_socket)
            else:
                there, back = await asyncio.open_connection(self._to.hostname, self._to.port)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(
            self._pass_on(reader, back), self._pass_on(there, writer, answers=True)
        )

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool = False
    ) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._passing.wait()
                if answers and self.answers_to_lose:
                    self.answers_to_lose -= 1
                    writer.transport.abort()
                writer.write(data)
                await writer.drain()
        # The end of a stream is a message like others.
        await self._passing.wait()
        self._writers.discard(writer)
        writer.close()


@contextlib.asynccontextmanager
async def cut_line(url: str) -> AsyncIterator[CutLine]:
    line = CutLine(url)
    await line.start()
    try:
        yield line
    finally:
        await line.close()
