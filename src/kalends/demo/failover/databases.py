"""Two database servers, as on two hosts: a primary, and a standby that its commits wait for."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from kalends.demo.failover.postgres_cluster import PostgresCluster, cluster_place, url_of

NAMES: Final = ("db1", "db2")


class DatabasePair:
    """The two of them, by name: which one is the primary changes."""

    def __init__(self, places: dict[str, Path]) -> None:
        """Raises `Unavailable` where no PostgreSQL can be run."""
        self._clusters = {name: PostgresCluster(place) for name, place in places.items()}
        self.primary, self.standby = NAMES

    def __getitem__(self, name: str) -> PostgresCluster:
        return self._clusters[name]

    def url(self, database: str) -> str:
        """Return the URL of a store in `database`, at whichever of them is the primary."""
        return url_of(*self._clusters.values(), database=database)

    def start(self, databases: tuple[str, ...]) -> None:
        """Make both, with empty `databases`; returns when commits wait for the standby."""
        primary = self[self.primary]
        primary.initialise()
        primary.start()
        for name in databases:
            primary.ask(f"create database {name}")
        self._follow()

    def fail_over(self) -> None:
        """Kill the primary as if its host had failed, and promote the standby."""
        self[self.primary].kill()
        self[self.standby].promote()
        self.primary, self.standby = self.standby, self.primary

    def bring_back(self) -> None:
        """Make a standby of the one that has failed, from a new backup; returns when commits wait for it."""
        shutil.rmtree(self[self.standby].data)
        self._follow()

    def stop(self) -> None:
        """End both."""
        for cluster in self._clusters.values():
            cluster.stop()

    def _follow(self) -> None:
        primary, place = self[self.primary], self[self.standby].place
        self._clusters[self.standby] = primary.standby(place, self.standby)
        primary.reload({"synchronous_standby_names": self.standby})
        primary.wait_for_standby(self.standby)


@contextlib.asynccontextmanager
async def database_pair(*databases: str) -> AsyncIterator[DatabasePair]:
    """Run both servers with empty `databases` until this context ends, and remove their files.

    Raises `Unavailable` where no PostgreSQL can be run.
    """
    with cluster_place() as first, cluster_place() as second:
        pair = DatabasePair(dict(zip(NAMES, (first, second), strict=True)))
        try:
            await to_its_end(lambda: pair.start(databases))
            yield pair
        finally:
            await to_its_end(pair.stop)


async def to_its_end(call: Callable[[], None]) -> None:
    """Run `call` in a thread. A thread cannot be cancelled: if this is, it waits for the thread first."""
    calling = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        await asyncio.shield(calling)
    finally:
        await asyncio.gather(calling, return_exceptions=True)
