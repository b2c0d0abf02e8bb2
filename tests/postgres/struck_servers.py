"""Two replicas of a broker, a site with a standby and one without, on three databases: and what befalls them.

All that two of them say to each other, and to customers, goes over a line that can be cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import psycopg

from tests.processes.cut_line import CutLine
from tests.processes.facility import Facility, broker_text, connected, site_text, write
from tests.processes.servers import Server, health, until
from tests.support.ports import free_urls

from .three_databases import NAMES, SYNCHRONOUS, ThreeDatabases, first_of_three

SOCKET: Final = ".s.PGSQL.5432"

BROKERS: Final = ("broker1", "broker2")
TWINS: Final = ("site0-a", "site0-b")
SITES: Final = (*TWINS, "site1")
CUSTOMERS: Final = "customers"

GIVEN_UP_S: Final = 4.0
"""Hosts break a connection on which nothing was acknowledged for so long (`tcp_user_timeout`)."""

DOWN_S_MAX: Final = 0.5
PAUSES_S: Final = ((0.1, 1.0), (0.1, 1.0), (5.0, 7.0))
"""The last ones are longer than a site's lease."""
CUTS_S: Final = ((0.3, 2.0), (0.3, 2.0), (4.0, 6.0))
"""The last ones are longer than connections live."""
ALONE_S_MAX: Final = 0.3


class Struck:
    """The servers, by name, and the lines between them, by who begins the talk and with whom."""

    def __init__(
        self, databases: ThreeDatabases, servers: Mapping[str, Server], folder: Path
    ) -> None:
        self.databases = databases
        self.servers = servers
        self.lines: dict[tuple[str, str], CutLine] = {}
        self._folder = folder
        self._homeless: list[str] = []
        """Nodes that have been given up, and have to join again."""

    def way(self, here: str, there: str) -> Path:
        """The folder of the socket by which `here` reaches the database server `there`."""
        return self._folder / f"{here}-{there}"

    @property
    def brokers(self) -> list[Server]:
        return [self.servers[name] for name in BROKERS]

    async def serving(self) -> Server:
        """The one of the twins that serves their site."""

        async def found() -> Server | None:
            for name in TWINS:
                if await health(self.servers[name].url) == "ok":
                    return self.servers[name]
            return None

        server = await until(found, "one of the twins serves")
        assert server is not None
        return server

    async def facility(self) -> Facility:
        return Facility([await self.serving(), self.servers["site1"]], self.brokers)

    async def whole(self) -> None:
        """Bring back what a strike has put aside, and return when all are well again."""
        while self._homeless:
            await asyncio.to_thread(self.databases.join, self._homeless.pop(), self.way)
        await asyncio.to_thread(self.databases.wait_for_standbys)
        for server in (*self.brokers, self.servers["site1"]):
            await server.healthy()
        facility = await self.facility()
        (other,) = (self.servers[n] for n in TWINS if self.servers[n] is not facility.sites[0])

        async def stands_by() -> bool:
            return await health(other.url) == "standby"

        await until(stands_by, "the other one of the twins stands by", explain=other.log)
        await connected(facility)

    def fail_over(self) -> None:
        """Promote a standby in place of the primary, which does not run any more or soon will not."""
        self._homeless.append(self.databases.fail_over(self.way).name)

    @contextlib.asynccontextmanager
    async def primary_alone(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Nothing reaches its standbys meanwhile; gives what kills it, with all that it has sent."""
        lines, primary = self.primary_and_standbys(), self.databases.primary.cluster

        async def kill() -> None:
            await asyncio.to_thread(primary.kill)
            break_off(lines)

        async with held(lines):
            yield kill

    def primary_and_standbys(self) -> list[CutLine]:
        primary = self.databases.primary.name
        return [self.lines[node.name, primary] for node in self.databases.standbys]


Strike = Callable[[Struck, random.Random], Awaitable[None]]
"""It returns when its cause is gone, though others may still feel it."""


class Kind(NamedTuple):
    """A kind of strikes, and how often it strikes beside others."""

    share: int
    strike: Strike
    fails_over: bool = False
    is_of_process: bool = False
    """It kills or pauses a process of ours or of the database."""


async def _primary_killed(struck: Struck, chance: random.Random) -> None:
    """Its host is cut off first: what it commits alone in that time must not have been told to anybody."""
    async with struck.primary_alone() as kill:
        await asyncio.sleep(chance.uniform(0, ALONE_S_MAX))
        await kill()
    await asyncio.to_thread(struck.fail_over)


async def _primary_paused(struck: Struck, chance: random.Random) -> None:
    """It goes on for a moment after its successor was promoted, as one that nobody has stopped."""
    old = struck.databases.primary.cluster
    with old.frozen():
        await asyncio.to_thread(struck.fail_over)
    await asyncio.sleep(chance.uniform(0, 1))
    await asyncio.to_thread(old.kill)


async def _wait_cancelled(struck: Struck, chance: random.Random) -> None:
    """Somebody cancels what waits for the standby, and the primary fails: that was no success."""
    async with struck.primary_alone() as kill:
        await asyncio.sleep(chance.uniform(0, ALONE_S_MAX))
        await asyncio.to_thread(_cancel_waits, struck.databases.primary.cluster.connect())
        # For as long as customers may be told of it.
        await asyncio.sleep(chance.uniform(0, ALONE_S_MAX))
        await kill()
    await asyncio.to_thread(struck.fail_over)


def _cancel_waits(session: psycopg.Connection[tuple[object, ...]]) -> None:
    with session:
        session.execute(
            "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"
        )


async def _primary_restarted(struck: Struck, chance: random.Random) -> None:
    primary = struck.databases.primary.cluster
    await asyncio.to_thread(primary.stop)
    await asyncio.sleep(chance.uniform(0, DOWN_S_MAX))
    await asyncio.to_thread(primary.start)


async def _standby_killed(struck: Struck, chance: random.Random) -> None:
    standby = chance.choice(struck.databases.standbys).cluster
    await asyncio.to_thread(standby.kill)
    await asyncio.sleep(chance.uniform(0, DOWN_S_MAX))
    await asyncio.to_thread(standby.start)


async def _connections_exhausted(struck: Struck, chance: random.Random) -> None:
    """An outsider takes all, those of a server of ours too, which it loses."""
    async with contextlib.AsyncExitStack() as stack:

        def fill() -> None:
            with contextlib.suppress(psycopg.OperationalError):
                while True:
                    stack.callback(struck.databases.primary.cluster.connect().close)

        first = struck.databases.primary.cluster.connect()
        stack.callback(first.close)
        await asyncio.to_thread(fill)
        first.execute(
            "select pg_terminate_backend(pid, 1000) from pg_stat_activity"
            " where application_name like 'kalends%' and random() < 0.3"
        )
        await asyncio.to_thread(fill)
        await asyncio.sleep(chance.uniform(0.1, 3))


def _killed(*names: str) -> Strike:
    async def strike(struck: Struck, chance: random.Random) -> None:
        server = struck.servers[chance.choice(names)]
        await server.kill()
        await asyncio.sleep(chance.uniform(0, DOWN_S_MAX))
        await server.spawn()
        await server.listening()

    return strike


def _paused(*names: str) -> Strike:
    async def strike(struck: Struck, chance: random.Random) -> None:
        server = struck.servers[chance.choice(names)]
        os.kill(server.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(chance.uniform(*chance.choice(PAUSES_S)))
        finally:
            os.kill(server.pid, signal.SIGCONT)

    return strike


def _cut(lines: Callable[[Struck, random.Random], Sequence[CutLine]]) -> Strike:
    async def strike(struck: Struck, chance: random.Random) -> None:
        length_s = chance.uniform(*chance.choice(CUTS_S))
        cut = lines(struck, chance)
        async with held(cut):
            await asyncio.sleep(length_s)
            if length_s > GIVEN_UP_S:
                break_off(cut)

    return strike


def _to_primary(*names: str) -> Callable[[Struck, random.Random], Sequence[CutLine]]:
    return lambda struck, chance: [
        struck.lines[chance.choice(names), struck.databases.primary.name]
    ]


def _between(
    here: Sequence[str], there: Sequence[str]
) -> Callable[[Struck, random.Random], Sequence[CutLine]]:
    return lambda struck, chance: [struck.lines[chance.choice(here), chance.choice(there)]]


def break_off(lines: Sequence[CutLine]) -> None:
    """What was sent and has not arrived is lost, and so are the connections."""
    for line in lines:
        line.cut()


@contextlib.asynccontextmanager
async def held(lines: Sequence[CutLine]) -> AsyncIterator[None]:
    """Nothing passes over `lines` meanwhile."""
    for line in lines:
        line.hold()
    try:
        yield
    finally:
        for line in lines:
            line.release()


KINDS: Final[Mapping[str, Kind]] = {
    "primary killed": Kind(6, _primary_killed, fails_over=True, is_of_process=True),
    "primary paused": Kind(3, _primary_paused, fails_over=True, is_of_process=True),
    "wait cancelled": Kind(2, _wait_cancelled, fails_over=True, is_of_process=True),
    "primary restarted": Kind(2, _primary_restarted, is_of_process=True),
    "standby killed": Kind(3, _standby_killed, is_of_process=True),
    "broker killed": Kind(5, _killed(*BROKERS), is_of_process=True),
    "broker paused": Kind(4, _paused(*BROKERS), is_of_process=True),
    "site killed": Kind(5, _killed(*SITES), is_of_process=True),
    "site paused": Kind(4, _paused(*SITES), is_of_process=True),
    "connections exhausted": Kind(2, _connections_exhausted),
    "cut customers-broker": Kind(1, _cut(_between((CUSTOMERS,), BROKERS))),
    "cut broker-site": Kind(1, _cut(_between(BROKERS, SITES))),
    "cut broker-primary": Kind(1, _cut(_to_primary(*BROKERS))),
    "cut site-primary": Kind(1, _cut(_to_primary(*SITES))),
    "cut primary-standbys": Kind(1, _cut(lambda struck, _: struck.primary_and_standbys())),
}


@contextlib.asynccontextmanager
async def struck_servers(
    folder: Path, *, synchronous: str = SYNCHRONOUS, prices: str = ""
) -> AsyncIterator[Struck]:
    """All of them, well; configurations and logs are in `folder`. `prices` are those of the resource."""
    with (
        first_of_three(synchronous) as databases,
        # The name of a socket is short.
        tempfile.TemporaryDirectory(prefix="kalends-ways-") as ways,
    ):
        # Database servers, which run as another user, go in there.
        os.chmod(ways, 0o755)
        urls = dict(zip((*SITES, *BROKERS), free_urls(5), strict=True))
        servers = {
            name: Server(name.partition("-")[0], folder / name / f"{name}.toml", url)
            for name, url in urls.items()
        }
        struck = Struck(databases, servers, Path(ways))
        try:
            await _lines(struck, urls)
            _configure(struck, urls, prices)
            for name in NAMES[1:]:
                await asyncio.to_thread(databases.join, name, struck.way)
            for server in servers.values():
                await server.spawn()
            for server in servers.values():
                await server.listening()
            await struck.whole()
            yield struck
        finally:
            for server in servers.values():
                if server.running:
                    await server.kill()
            for line in struck.lines.values():
                await line.close()


async def _lines(struck: Struck, urls: Mapping[str, str]) -> None:
    for here, there in [(CUSTOMERS, b) for b in BROKERS] + [(b, s) for b in BROKERS for s in SITES]:
        struck.lines[here, there] = CutLine(urls[there])
    for here in (*urls, *NAMES):
        for there, place in struck.databases.places.items():
            if here != there:
                way = struck.way(here, there)
                way.mkdir()
                struck.lines[here, there] = CutLine(at=way / SOCKET, to=place / SOCKET)
    for line in struck.lines.values():
        await line.start()


def _configure(struck: Struck, urls: Mapping[str, str], prices: str) -> None:
    role = struck.databases.primary.cluster.role
    with struck.databases.primary.cluster.connect() as session:
        # Nobody has joined yet whom a commit could wait for.
        session.execute("set synchronous_commit = local")
        for schema in ("broker", "site0", "site1"):
            session.execute(f"create schema {schema}".encode())

    def store(server: Server, name: str) -> str:
        schema = "broker" if name in BROKERS else server.name
        hosts = ",".join(str(struck.way(name, node)) for node in NAMES)
        return f"postgresql:///postgres?host={hosts}&user={role}&options=-csearch_path%3D{schema}"

    for name, server in struck.servers.items():
        server.configuration.parent.mkdir(parents=True)
        if name in SITES:
            text = site_text(server.name, server.url, store=store(server, name)) + prices
        else:
            by = {site: struck.lines[name, site].url for site in SITES}
            sites = {"site0": ",".join(by[twin] for twin in TWINS), "site1": by["site1"]}
            text = broker_text(
                server.url, sites, replica=name[-1], coords=[urls[b] for b in BROKERS],
                store=store(server, name),
            )  # fmt: skip
        write(server.configuration, text)
