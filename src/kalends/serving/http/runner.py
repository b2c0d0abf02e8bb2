"""Listening, and stopping gracefully: the life of a server process.

On SIGTERM or SIGINT a server stops accepting, lets calls in flight end within the applications'
deadline, closes sessions as going away, and runs the applications' clean-up. All promises
are in the stores, so a second signal, which ends the process at once, breaks nothing either.
SIGHUP reads the configuration again (`HangUps`).
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import ssl
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TextIO

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from kalends.core.errors import Conflict, InvalidInput, KalendsError
from kalends.rim.private_files import check_private
from kalends.serving.auth.callers import split_listen
from kalends.serving.http.application import connections_of, drain
from kalends.serving.http.connections import CONNECTIONS_MAX, for_connections, raise_descriptors
from kalends.serving.http.door import Door, listening_sockets

KEEP_ALIVE_S: Final = 75.0
"""An idle connection is kept this long: longer than the pools of common clients and proxies do."""

NOT_HTTP: Final = "this request is not well-formed HTTP, or one of its lines is too long"

CUT_OFF_S: Final = 1.0
"""Seconds between the applications' own deadline and the end of connections."""


class Service(msgspec.Struct, frozen=True):
    """An application of `build_application` and where it listens; announced as `name` (``site sdsc``).

    Each connection to it takes `descriptors_each`: two if it is passed on.
    """

    name: str
    application: web.Application
    listen: str
    tls: ssl.SSLContext | None = None
    descriptors_each: int = 1


@dataclass(frozen=True, eq=False)
class Listener:
    """A service that accepts connections at `url`."""

    runner: web.AppRunner
    door: Door
    url: str

    async def stop(self) -> None:
        """Stop gracefully: accept no more, drain the application, cut off the rest, clean up.

        The application is drained while its connections still carry data: otherwise sessions could
        neither learn that new calls are refused nor agree to be closed.
        """
        await self.door.close()
        await drain(self.runner.app)
        await self.runner.cleanup()


def run(
    make_services: Callable[[], Awaitable[Sequence[Service]]],
    *,
    reload: Callable[[], Awaitable[None]] | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Serve until a signal comes; the exit code of the process.

    `make_services` runs inside the event loop, and so does `reload`, at each SIGHUP. Each service prints a
    line to `out` (standard output) once it accepts connections: ``listening site sdsc
    http://127.0.0.1:7101``. A `KalendsError` at the start is printed to `err`, and all started services are
    stopped.
    """
    try:
        asyncio.run(_serve_until_signal(make_services, reload, out or sys.stdout))
    except KalendsError as error:
        print(f"kalends: {error}", file=err or sys.stderr)
        return error.exit_code
    return 0


async def serve(services: Sequence[Service], stop: asyncio.Event, out: TextIO) -> None:
    """Serve all of `services` until `stop` is set, then stop them gracefully.

    A service that is still starting then is given up: it may wait for its store.

    Raises what `listen` raises, with nothing left running.
    """
    started: list[Listener] = []
    connections_max = for_connections(
        raise_descriptors(), sum(each.descriptors_each for each in services)
    )
    try:
        for service in services:
            listening = await _unless(stop, listen(service, connections_max))
            if listening is None:
                return
            started.append(listening)
            print(f"listening {service.name} {listening.url}", file=out, flush=True)
        await stop.wait()
    finally:
        await asyncio.gather(*(listening.stop() for listening in started))


async def _unless(
    stop: asyncio.Event, starting: Coroutine[object, object, Listener]
) -> Listener | None:
    """Return what has started; None, and nothing runs, if `stop` was set before."""
    start, stopped = asyncio.create_task(starting), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((start, stopped), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        start.cancel()
        await asyncio.gather(start, stopped, return_exceptions=True)
    return None if start.cancelled() else start.result()


async def listen(service: Service, connections_max: int = CONNECTIONS_MAX) -> Listener:
    """Start the application of `service`; `Listener.stop` ends it.

    Raises `InvalidInput` for an address that is not one of this machine, `Conflict` when the port is
    taken, and the errors of the application's start-up.
    """
    host, port = split_listen(service.listen)
    runner = web.AppRunner(
        service.application,
        keepalive_timeout=KEEP_ALIVE_S,
        shutdown_timeout=CUT_OFF_S,
    )
    try:
        await runner.setup()
        sockets = await listening_sockets(host, port)
    except OSError as error:
        await runner.cleanup()
        raise _cannot_listen(service.listen, error) from error
    except BaseException:
        await runner.cleanup()
        raise
    connections = connections_of(service.application)
    connections.connections_max = connections_max
    assert runner.server is not None
    door = Door(sockets, partial(_protocol, runner.server), service.tls, connections)
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if service.tls else "http"
    return Listener(runner, door, f"{scheme}://{shown}:{sockets[0].getsockname()[1]}")


class _Protocol(RequestHandler):
    """A request handler that neither returns nor logs invalid HTTP, which may have a token, or be long."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        response = web.Response(status=status, text=f"{NOT_HTTP}\n")
        response.force_close()
        return response


def _protocol(server: web.Server) -> asyncio.Protocol:
    return _Protocol(server, loop=asyncio.get_running_loop(), **server._kwargs)


def tls_context(certificate: Path, key: Path, clients: Path | None = None) -> ssl.SSLContext:
    """Return the TLS context of a server; raises `InvalidInput` if its files cannot be used.

    The key is a secret: one that others can read is refused.
    `clients` is the authority that signs the certificates of callers, if any is shown.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # A key with a passphrase would stop a server at every restart until an operator types it.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(
            f"the certificate {certificate} and the key {key} cannot be used: {error}",
            where="tls",
            remedy="give a certificate and its key in PEM form, the key without a passphrase",
        ) from error
    check_private(key, "tls.key")
    if clients is not None:
        try:
            context.load_verify_locations(clients)
        except (OSError, ssl.SSLError) as error:
            raise InvalidInput(
                f"cannot use {clients}: {error}",
                where="tls.clients",
                remedy="give a file with the certificates of an authority in PEM form",
            ) from error
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def _serve_until_signal(
    make_services: Callable[[], Awaitable[Sequence[Service]]],
    reload: Callable[[], Awaitable[None]] | None,
    out: TextIO,
) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def on_signal(number: signal.Signals) -> None:
        stop.set()
        loop.remove_signal_handler(number)  # The next one ends the process at once.

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    services = await make_services()
    if reload is not None:
        loop.add_signal_handler(signal.SIGHUP, HangUps(reload, stop).came)
    await serve(services, stop, out)


class HangUps:
    """Handler of SIGHUP: `reload`, or a stop if the terminal of the server has been closed."""

    def __init__(self, reload: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
        self._reload = reload
        self._stop = stop
        self._had_terminal = _has_terminal()
        self._again = False
        self._task: asyncio.Task[None] | None = None

    def came(self) -> None:
        if self._had_terminal and not _has_terminal():
            self._stop.set()
            return
        self._again = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        """Reload one at a time; signals during a reload cause one more."""
        while self._again:
            self._again = False
            await self._reload()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _cannot_listen(address: str, error: OSError) -> KalendsError:
    if error.errno == errno.EADDRINUSE:
        return Conflict(
            f"{address} is taken: another program listens there",
            where="listen",
            remedy="stop it, or choose another port (0 takes any free one)",
        )
    return InvalidInput(
        f"cannot listen on {address}: {error.strerror or error}",
        where="listen",
        remedy="give an address of this machine and a port that you may use",
    )
