"""A site and its standby, each a real process, on one database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.ports import free_urls

from .facility import Facility, connected, make_facility, write
from .servers import Server, health, until


class Twins(NamedTuple):
    """A site and its standby, which have one database, and another site; the broker knows all."""

    first: Server
    second: Server
    other: Server
    broker: Server

    def served_by(self, site: Server) -> Facility:
        return Facility([site, self.other], [self.broker])


def twins_at(directory: Path, url: str) -> Twins:
    made = make_facility(directory, sites=2, replicas=1, stores={"site0": url})
    (first, other), (broker,) = made
    (second_url,) = free_urls(1)
    (directory / "standby").mkdir()
    text = first.configuration.read_text().replace(
        first.url.removeprefix("http://"), second_url.removeprefix("http://")
    )
    second = Server("site0", write(directory / "standby" / "site0.toml", text), second_url)
    both = f'url = "{first.url},{second.url}"'
    text = broker.configuration.read_text().replace(f'url = "{first.url}"', both)
    write(broker.configuration, text)
    return Twins(first, second, other, broker)


@asynccontextmanager
async def serving(twins: Twins) -> AsyncIterator[None]:
    """The first one serves, the second one stands by, and the broker is connected."""
    try:
        await twins.first.start()
        await twins.second.spawn()
        await twins.second.listening()
        await is_standby(twins.second)
        await twins.other.start()
        await twins.broker.start()
        await connected(twins.served_by(twins.first))
        yield
    finally:
        for server in twins:
            if server.running:
                await server.kill()


async def is_standby(server: Server) -> None:
    async def says_so() -> bool:
        return await health(server.url) == "standby"

    await until(says_so, f"{server.name} is a standby", explain=server.log)
