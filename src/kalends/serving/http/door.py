"""The listening sockets of a server, and its acceptance of connections.

asyncio's own server accepts all connections; when descriptors run out, it tries again at once and logs each
time. Here one connection is accepted at a time, and only if `Connections` has room for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final

from kalends.serving.http.connections import FIRST_REQUEST_S, Connection, Connections

BACKLOG: Final = 128
"""Connections that the kernel holds ready while the server is busy."""

RETRY_S: Final = 0.1
"""Time before the next attempt if the system cannot accept, because a descriptor must be closed first."""

LOOK_EVERY_S: Final = 1.0


class Door:
    """Acceptor of connections at `sockets` for the protocols that `factory` makes, until `close`."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        factory: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        connections: Connections,
    ) -> None:
        self._sockets = sockets
        self._factory = factory
        self._tls = tls
        self._connections = connections
        self._arriving: dict[asyncio.Task[None], _Arrival] = {}
        self._tasks = [asyncio.create_task(self._accept(each)) for each in sockets]
        self._tasks.append(asyncio.create_task(self._look_around()))

    async def close(self) -> None:
        """Stop accepting; open connections stay."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in self._sockets:
            each.close()
        for arrival in self._arriving.values():
            arrival.close()
        await asyncio.gather(*self._arriving, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:
                self._connections.starved(error.strerror or str(error))
                await asyncio.sleep(RETRY_S)
                continue
            arrival = _Arrival(accepted)
            connection = self._connections.admit(arrival.close, str(address[0]))
            if connection is None:
                accepted.close()
            else:
                task = asyncio.create_task(self._arrive(arrival, connection))
                self._arriving[task] = arrival
                task.add_done_callback(self._arriving.pop)
            await asyncio.sleep(0)  # Accepting does not wait while there are clients.

    async def _arrive(self, arrival: _Arrival, connection: Connection) -> None:
        def protocol() -> asyncio.Protocol:
            return _Attended(self._factory(), arrival, self._connections, connection)

        with contextlib.suppress(
            OSError
        ):  # Disconnected, or not TLS: there is no client to answer.
            await asyncio.get_running_loop().connect_accepted_socket(
                protocol,
                arrival.accepted,
                ssl=self._tls,
                ssl_handshake_timeout=FIRST_REQUEST_S if self._tls else None,
            )
        if arrival.transport is None:
            self._connections.lost(connection)

    async def _look_around(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self._connections.look_around()


class _Arrival:
    """An accepted socket, and its transport once it can carry requests."""

    def __init__(self, accepted: socket.socket) -> None:
        self.accepted = accepted
        self.transport: asyncio.Transport | None = None

    def close(self) -> None:
        """End the connection at once, also if its transport is still being made."""
        if self.transport is not None:
            self.transport.abort()
        else:
            with contextlib.suppress(OSError):
                self.accepted.shutdown(socket.SHUT_RDWR)


class _Attended(asyncio.Protocol):
    """The protocol `inner`, whose begin and end it reports to `connections`."""

    def __init__(
        self,
        inner: asyncio.Protocol,
        arrival: _Arrival,
        connections: Connections,
        connection: Connection,
    ) -> None:
        self._inner = inner
        self._arrival = arrival
        self._connections = connections
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._arrival.transport = transport
        self._connections.ready(self._connection, transport)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.lost(self._connection, self._arrival.transport)
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


async def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen at all addresses of `host`; raises `OSError`, with none left open."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    made: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            made.append(socket.create_server(address, family=family, backlog=BACKLOG))
            made[-1].setblocking(False)
    except BaseException:
        for each in made:
            each.close()
        raise
    return made
