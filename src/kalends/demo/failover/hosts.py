"""Two databases, two processes of a broker, two of a site, and one of another site: none is needed alone.

Only the other site has one process, and its store in a file. Each process stands for a host of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import kalends
from kalends.core.errors import KalendsError
from kalends.demo import processes
from kalends.demo.clusters.loopback_slurm import free_ports
from kalends.demo.facility import (
    BROKER,
    OPERATOR,
    Facility,
    FacilityPlan,
    all_sites_up,
    make_directory,
    make_keys,
    make_tokens,
    packaged,
    write_environment,
)
from kalends.demo.failover.databases import DatabasePair, database_pair
from kalends.demo.together import all_of, until
from kalends.stores.postgres.driver import need_driver

BROKERS: Final = ("npaci-1", "npaci-2")
SITES: Final = ("sdsc-1", "sdsc-2")
OTHER: Final = "caltech"
SERVERS: Final = (*SITES, OTHER, *BROKERS)


@dataclass(frozen=True)
class Hosts(Facility):
    """The servers, each by the name of its host, and the databases."""

    databases: DatabasePair

    @property
    def broker_url(self) -> str:
        """The addresses of both processes of the broker."""
        return ",".join(self.servers[name].url for name in BROKERS)

    async def kill(self, name: str) -> None:
        """End the server of a host at once."""
        await processes.kill(self.servers[name])

    async def start(self, name: str) -> None:
        """Start the server of a host; returns when it works, or stands by."""
        self.servers[name] = await processes.start(name, _configuration(self.directory, name))
        if name in BROKERS:
            await all_sites_up(self.servers[name].url, self.token(OPERATOR))
        else:
            await until(lambda: self._status(name), bool, f"{name} neither works nor stands by")

    async def serving(self) -> str:
        """Return which process of the site serves; either may, once a database has failed."""

        async def look() -> str:
            states = {name: await self._status(name) for name in SITES}
            return next((name for name, status in states.items() if status == "ok"), "")

        return await until(look, bool, "no process of the site serves")

    async def _status(self, name: str) -> str:
        """Return ``ok``, ``standby``, or "" for a server that does not work."""
        token = self.token(OPERATOR)
        try:
            async with kalends.connect(
                self.servers[name].url, token=token, transport="http"
            ) as client:
                status = (await client.health()).status
        except KalendsError:
            return ""
        return status if status in ("ok", "standby") else ""


@contextlib.asynccontextmanager
async def hosts(directory: Path, now_s: int, said: Callable[[str], None]) -> AsyncIterator[Hosts]:
    """Run everything until this context ends; the files stay in `directory`, which is new or empty.

    The databases are elsewhere, and removed. Raises `KalendsError` if the driver is not installed,
    `Unavailable` if no PostgreSQL can be run or a server does not come up, and `Conflict` for a directory
    with something in it. However the context ends, nothing is left running.
    """
    need_driver()
    make_directory(directory)
    said("starting two PostgreSQL servers, a primary and its synchronous standby")
    async with database_pair(BROKER, "sdsc") as databases:
        said("writing configurations, making keys and tokens")
        _write_configurations(directory, databases)
        make_keys(directory)
        make_tokens(directory, now_s, _PLAN)
        made = Hosts(directory, {}, databases)
        try:
            # The first process of the site serves, and the second one finds it so.
            for together in ((SITES[0], OTHER), (SITES[1],), BROKERS):
                await all_of(made.start(name) for name in together)
            for name in SERVERS:
                said(f"{name} listens at {made.servers[name].url}")
            write_environment(made)
            yield made
        finally:
            await processes.stop(made.servers.values())


_PLAN: Final = FacilityPlan(
    {name: packaged("failover", f"site-{name}.toml") for name in ("sdsc", OTHER)},
    packaged("failover", "broker.toml"),
)


def _configuration(directory: Path, name: str) -> Path:
    return directory / f"{name}.toml"


def _write_configurations(directory: Path, databases: DatabasePair) -> None:
    first = free_ports(len(SERVERS))
    ports = {name: str(first + number) for number, name in enumerate(SERVERS)}
    for name in SERVERS:
        server, _, replica = name.partition("-")
        text = _PLAN.sites.get(server, _PLAN.broker).replace("PORT", ports[name])
        for peer, port in ports.items():
            text = text.replace(f":{peer.replace('-', '_').upper()}", f":{port}")
        text = text.replace("STORE", databases.url(server)).replace("REPLICA", replica)
        text = text.replace("FOLDER", name)
        if "folder =" in text:
            (directory / name).mkdir()
        _configuration(directory, name).write_text(text, "utf-8")
