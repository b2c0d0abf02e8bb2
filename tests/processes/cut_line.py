"""A line to a server that can be cut: what is connected breaks, and whoever connects again gets through."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit


class CutLine:
    """Passes bytes on from a port of its own to the server at `url`."""

    def __init__(self, url: str) -> None:
        self._to = urlsplit(url)
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.url = ""
        self.passed = 0
        """Connections so far."""
        self.answers_to_lose = 0
        """So many answers are not passed on: the connection breaks in the place of each."""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    def cut(self) -> None:
        """Break all that is connected, in both directions, without a word."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.passed += 1
        try:
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
                if answers and self.answers_to_lose:
                    self.answers_to_lose -= 1
                    writer.transport.abort()
                writer.write(data)
                await writer.drain()
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
