"""A facility to test: sites of several owners and the replicas of one broker, each a real process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import kalends
from tests.support.ports import free_urls

from .servers import Server, until

CAPACITY: Final = 8
GRAIN_S: Final = 600
RESOURCE: Final = "cluster"


class Facility(NamedTuple):
    sites: list[Server]
    brokers: list[Server]

    @property
    def servers(self) -> list[Server]:
        return [*self.sites, *self.brokers]

    @property
    def resources(self) -> list[str]:
        return [f"{site.name}/{RESOURCE}" for site in self.sites]


class Keys(NamedTuple):
    """Public key files: of the one who signs users' tokens, and the broker's own (with its private one)."""

    people: Path
    broker: Path
    broker_private: Path


def make_facility(
    directory: Path,
    *,
    sites: int = 3,
    replicas: int = 2,
    capacity: int = CAPACITY,
    stores: Mapping[str, Path | str] | None = None,
) -> Facility:
    """Configurations of ``site0..`` and of ``broker1..``, replicas of one broker; nothing is started.

    Access is open, on loopback. `stores` moves the store of ``site0..`` or ``broker`` elsewhere: to a
    file, or for the broker to the URL of a database.
    """
    urls = free_urls(sites + replicas)
    names = [f"site{number}" for number in range(sites)]
    made = [
        Server(
            name,
            write(
                directory / f"{name}.toml",
                site_text(name, url, capacity=capacity, store=(stores or {}).get(name)),
            ),
            url,
        )
        for name, url in zip(names, urls, strict=False)
    ]
    coords = urls[sites:]
    brokers = [
        Server(
            f"broker{number}",
            write(
                directory / f"broker{number}.toml",
                broker_text(
                    url,
                    dict(zip(names, urls, strict=False)),
                    replica=str(number),
                    coords=coords,
                    store=(stores or {}).get("broker"),
                ),
            ),
            url,
        )
        for number, url in enumerate(coords, 1)
    ]
    return Facility(made, brokers)


async def connected(facility: Facility) -> None:
    """Return once every broker is connected to every site: it is well before that."""
    for broker in facility.brokers:
        async with kalends.connect(broker.url, user="tests", zone="UTC") as client:

            async def all_up(client: kalends.Client = client) -> bool:
                return all(site.state == "up" for site in (await client.resources()).sites)

            await until(all_up, f"{broker.name} is connected to its sites")


def site_text(
    name: str,
    url: str,
    *,
    capacity: int = CAPACITY,
    store: Path | str | None = None,
    keys: Keys | None = None,
) -> str:
    trusted = ""
    if keys is not None:
        trusted = f"""
[[site.keys]]
file = "{keys.people}"
scopes = ["use", "audit", "admin"]
[[site.keys]]
file = "{keys.broker}"
scopes = ["use", "broker"]
"""
    return f"""
[log]
level = "info"
form = "json"
[site]
name = "{name}"
listen = "{url.removeprefix("http://")}"
plain_http = true
url = "{url}"
store = "{store or name + ".sqlite"}"
{trusted}
[[site.resources]]
name = "{RESOURCE}"
capacity = {capacity}
grain = "10m"
attributes = {{ kind = "cluster" }}
"""


def broker_text(
    url: str,
    sites: dict[str, str],
    *,
    replica: str = "1",
    coords: Sequence[str] = (),
    store: Path | str | None = None,
    keys: Keys | None = None,
) -> str:
    trusted, signing = "", ""
    if keys is not None:
        trusted = f"""
[[broker.keys]]
file = "{keys.people}"
scopes = ["use", "audit", "admin"]
"""
        signing = f'key = "{keys.broker_private}"'
    known = "".join(
        f'[[broker.sites]]\nname = "{name}"\nurl = "{site}"\n' for name, site in sites.items()
    )
    quoted = ", ".join(f'"{each}"' for each in coords or [url])
    return f"""
[log]
level = "info"
form = "json"
[broker]
name = "broker"
replica = "{replica}"
listen = "{url.removeprefix("http://")}"
plain_http = true
url = "{url}"
store = "{store or "broker.sqlite"}"
coords = [{quoted}]
{signing}
{trusted}
{known}"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
