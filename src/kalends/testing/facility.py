"""Sites and a broker on loopback, in a thread of this process, for as long as a ``with`` lasts."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self, TypeVar

import msgspec
import structlog

from kalends import __version__
from kalends.client.client import Client
from kalends.client.client_settings import TransportName
from kalends.client.connection import connect, in_surroundings
from kalends.client.sync import SyncClient
from kalends.client.transports.retry import Backoff
from kalends.contract.calls import SiteStatus
from kalends.core.errors import NotFound
from kalends.core.times import parse_time
from kalends.demo.together import until
from kalends.servers.broker import build_broker
from kalends.servers.site import build_site
from kalends.servers.virtual import build_virtual
from kalends.serving.configuration import Configuration, configuration_of
from kalends.serving.http.runner import Listener, Service, listen
from kalends.serving.logs import hide_secrets
from kalends.testing.clock import MovableClock

ANY_PORT: Final = "127.0.0.1:0"
OPERATOR: Final = "operator"

Resources = Mapping[str, int | Mapping[str, Any]]
"""The capacity of each resource, or its fields as in ``[[site.resources]]`` of a configuration file."""


class LocalFacility:
    """The shipped servers on free loopback ports, from entering ``with`` (or ``async with``) to leaving it.

    `sites` are the owners with their resources; `broker` names the broker, and `virtual` virtual sites, each
    with the sites that are reached only through it. `settings` are further ones of the broker, as its
    configuration names them: ``{"notices": {"webhook_hosts": ["*"]}}``.
    `now` is the first time on `clock` (``2027-03-01T09:00Z``, in UTC if it has no offset), by default the
    present. Access is open: callers need no token. Stores are in a temporary directory, removed at the end.

    Entering raises `InvalidInput` for an invalid configuration.
    """

    def __init__(
        self,
        sites: Mapping[str, Resources],
        *,
        now: str = "now",
        broker: str = "broker",
        virtual: Mapping[str, Sequence[str]] = MappingProxyType({}),
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.clock = MovableClock(parse_time(now, int(time.time()), "UTC"), self._settle)
        self.broker = broker
        self._sites = sites
        self._virtual = virtual
        self._settings = settings
        self._configured: dict[str, Configuration] = {}
        self._running: dict[str, Listener] = {}
        self._thread: ServerThread
        self._ending = ExitStack()

    def __enter__(self) -> Self:
        _log_by_logging()
        with ExitStack() as ending:
            directory = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="kalends-")))
            self._thread = ServerThread(self.clock.monotonic_s)
            ending.callback(self._thread.stop)
            ending.callback(lambda: self._thread.run(self._stop_all()))
            for name, resources in self._sites.items():
                self._configured[name] = configuration_of(_site(name, resources), directory)
                self._thread.run(self._serve(name))
            for name, members in self._virtual.items():
                urls = {each: self.url(each) for each in members}
                self._configured[name] = configuration_of(_virtual(name, urls), directory)
                self._thread.run(self._serve(name))
            known = [self._known(name) for name in self._reached()]
            self._configured[self.broker] = configuration_of(
                _broker(self.broker, known, self._settings), directory
            )
            self.start(self.broker)
            self._ending = ending.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ending.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *raised: object) -> None:
        await asyncio.to_thread(self._ending.close)

    def client(
        self,
        user: str,
        *,
        at: str = "",
        groups: Sequence[str] = (),
        zone: str = "UTC",
        timeout_s: float = 30.0,
        transport: TransportName = "session",
        backoff: Backoff | None = None,
    ) -> Client:
        """Return a client of the broker, or of the site `at`, as `user`; reads times by `clock`, in `zone`.

        Other arguments as for `kalends.connect`.
        """
        client = connect(
            self.url(at or self.broker), user=user, groups=groups, zone=zone, timeout_s=timeout_s,
            transport=transport, backoff=backoff,
        )  # fmt: skip
        return in_surroundings(client, wall_clock=self.clock.wall_s)

    def sync_client(
        self,
        user: str,
        *,
        at: str = "",
        groups: Sequence[str] = (),
        zone: str = "UTC",
        timeout_s: float = 30.0,
        transport: TransportName = "session",
        backoff: Backoff | None = None,
    ) -> SyncClient:
        """Return a synchronous client, with the arguments of `client`."""
        return SyncClient(
            self.client(
                user, at=at, groups=groups, zone=zone, timeout_s=timeout_s, transport=transport,
                backoff=backoff,
            )
        )  # fmt: skip

    def url(self, name: str) -> str:
        """Return the address of the site or broker `name`, also while it is stopped."""
        if name not in self._configured:
            raise NotFound("there is no such server here", where=name)
        return f"http://{_server(self._configured[name]).listen}"

    def stop(self, name: str) -> None:
        """Stop the site or broker `name`, as a signal would, and wait until the broker has noticed.

        Its store stays. In a test with a running event loop, use ``await asyncio.to_thread(servers.stop,
        name)``, so that clients can close their connections.
        """
        self.url(name)
        if listener := self._running.pop(name, None):
            self._thread.run(listener.stop())
        self._settle()

    def start(self, name: str) -> None:
        """Start the site or broker `name` again at its address, and wait until it is in use."""
        self.url(name)
        if name not in self._running:
            self._thread.run(self._serve(name))
        self._settle()

    def _reached(self) -> list[str]:
        """Return the sites that the broker calls directly: virtual ones, and those that are in none."""
        members = {each for members in self._virtual.values() for each in members}
        return [name for name in (*self._sites, *self._virtual) if name not in members]

    def _known(self, name: str) -> dict[str, Any]:
        members = list(self._virtual.get(name, ()))
        return {"name": name, "url": self.url(name), "members": members}

    async def _serve(self, name: str) -> None:
        configuration = self._configured[name]
        moment = self.clock.moment
        if configuration.site is not None:
            application = build_site(configuration.site, version=__version__, moment=moment)
        elif configuration.virtual is not None:
            virtual = configuration.virtual
            application = build_virtual(virtual, version=__version__, moment=moment)
        else:
            assert configuration.broker is not None
            application = build_broker(configuration.broker, version=__version__, moment=moment)
        listener = await listen(Service(name, application, _server(configuration).listen))
        self._running[name] = listener
        self._configured[name] = _at(configuration, listener.url.removeprefix("http://"))

    async def _stop_all(self) -> None:
        """The broker first: it has been started last."""
        while self._running:
            await self._running.popitem()[1].stop()

    def _settle(self) -> None:
        """Wait until the broker, if it runs, has contact with all running sites and has stored its writes."""
        self._thread.run(self._settled())

    async def _settled(self) -> None:
        if self.broker not in self._running:
            return
        async with self.client(OPERATOR) as client:
            await until(
                client.resources,
                lambda answer: all(
                    (site.state == "up") == (self._running.keys() >= {site.site, *_way_of(site)})
                    for site in answer.sites
                ),
                "the broker does not notice which of its sites run",
            )
            # Writes are stored in their order, so this one is the last of all that were due before it.
            with suppress(NotFound):
                await client.delete_agent(OPERATOR)


def _way_of(site: SiteStatus) -> set[str]:
    """Return the virtual sites on the way to `site`."""
    return set(filter(None, site.through.split("/")))


def _server(configuration: Configuration) -> Any:
    return configuration.site or configuration.virtual or configuration.broker


def _at(configuration: Configuration, listen: str) -> Configuration:
    """`configuration` with the address `listen`."""
    role = "site" if configuration.site else "virtual" if configuration.virtual else "broker"
    server = msgspec.structs.replace(_server(configuration), listen=listen)
    return msgspec.structs.replace(configuration, **{role: server})


def _site(name: str, resources: Resources) -> dict[str, Any]:
    listed = [
        {"name": each, **({"capacity": fields} if isinstance(fields, int) else fields)}
        for each, fields in resources.items()
    ]
    return {"site": {**_common(name), "resources": listed}}


def _virtual(name: str, urls: Mapping[str, str]) -> dict[str, Any]:
    members = [{"name": member, "url": url} for member, url in urls.items()]
    return {"virtual": {"name": name, "listen": ANY_PORT, "members": members}}


def _broker(
    name: str, sites: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]
) -> dict[str, Any]:
    return {"broker": {**_common(name), "sites": sites, **settings}}


def _common(name: str) -> dict[str, Any]:
    return {"name": name, "listen": ANY_PORT, "store": f"{name}.sqlite"}


def _log_by_logging() -> None:
    """Log by `logging`, which pytest shows, unless this process has configured structlog itself."""
    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.processors.format_exc_info,
                hide_secrets,
                structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            logger_factory=structlog.stdlib.LoggerFactory(),
        )


T = TypeVar("T")


class ServerThread:
    """A thread that runs work until `stop`; timers are due by `monotonic_s`."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._loop = _ClockedLoop(monotonic_s)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="kalends-testing", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`, which begins after every timer that is due now."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _ClockedLoop(asyncio.SelectorEventLoop):
    """Wake the loop by a call from another thread, so that it checks its timers by `time`."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        super().__init__()

    def time(self) -> float:
        return self._monotonic_s()
