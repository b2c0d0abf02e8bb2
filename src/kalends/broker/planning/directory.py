"""The sites that a broker knows: their last reported resources and connections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from kalends.contract.messages import Hello
from kalends.contract.versions import ServerVersion
from kalends.core.errors import NotFound
from kalends.core.features import FEATURES, Feature
from kalends.core.intervals import Moment
from kalends.core.resources import ResourceInfo
from kalends.rim.web_addresses import addresses_in


@dataclass(slots=True)
class SiteEntry:
    """A site: its `url`, or several with commas, the `epoch` that counts its starts, its `near` sites.

    `virtual` is the virtual site that it is reached by, and `way` the names from there; "": by none.
    """

    name: str
    url: str
    virtual: str = ""
    way: str = ""
    up: bool = False
    epoch: int = 0
    detail: str = "not connected yet"
    unusable: bool = False
    """It is not connected for a reason that does not pass: somebody has to mend it."""
    cut_off: bool = False
    """It is not connected because of this broker: whether it is well is not known."""
    leaving: bool = False
    """Nothing more is booked there."""
    near: tuple[str, ...] = ()
    behind_ms: int = 0
    """How far its wall clock was behind ours when it last said what that shows."""
    vote_ms: int = 0
    """For how long a vote may be under way there."""
    version: ServerVersion | None = None
    """What it said when it was connected last, with the features that may be used with it; None: never."""

    @property
    def lacks(self) -> tuple[Feature, ...]:
        """What we know, and it does not."""
        version = self.version
        return tuple(each for each in FEATURES if version is not None and not version.knows(each))

    @property
    def through(self) -> tuple[str, ...]:
        """The virtual sites that it is reached by, the nearest first."""
        return (self.virtual, *self.way.split("/")[:-1]) if self.virtual else ()


LEAVING: Final = "it is leaving this broker: nothing more can be booked there"

MACHINES_MAX: Final = 256
"""Machines of one site that are looked at for each job, the first by name: a site may tell of thousands."""


class Directory:
    """Sites and resources by name; sites are the broker's, resources come with each Hello."""

    def __init__(
        self, sites: dict[str, str], members: Mapping[str, tuple[str, str]] | None = None
    ) -> None:
        """`sites` gives their addresses, `members` of those that have one their virtual site and way."""
        reached = members or {}
        self.sites = {
            name: SiteEntry(name, url, *reached.get(name, ("", ""))) for name, url in sites.items()
        }
        self.peer_urls = {name: addresses_in(url)[0] for name, url in sites.items()}
        """Where peers reach each site: at the address at which it was connected last."""
        self.virtual = tuple(dict.fromkeys(virtual for virtual, _ in reached.values()))
        """The virtual sites that some are reached by."""
        self.resources: dict[str, ResourceInfo] = {}
        self.machines: dict[str, tuple[ResourceInfo, ...]] = {}
        """The resources of each site that take jobs, by name; no more than `MACHINES_MAX` of one site."""

    def add(self, name: str, url: str, *, leaving: bool) -> None:
        """Take in a site that is reached straight, or the changed way to one."""
        entry = self.sites.setdefault(name, SiteEntry(name, url))
        entry.url, entry.leaving = url, leaving
        self.peer_urls[name] = addresses_in(url)[0]
        if leaving:
            self._drop_resources(name)

    def remove(self, site: str) -> None:
        """Forget a site at which nothing is booked any more."""
        self.sites.pop(site, None)
        self.peer_urls.pop(site, None)
        self._drop_resources(site)

    def _drop_resources(self, site: str) -> None:
        for name in [name for name in self.resources if name.startswith(f"{site}/")]:
            del self.resources[name]
        self.machines.pop(site, None)

    def greet(self, hello: Hello) -> None:
        """Record the resources of a connected site; leave out those outside its own name.

        How it is reached is our own knowledge, whatever it says.
        """
        entry = self.sites[hello.site]
        entry.up, entry.epoch, entry.detail, entry.near = True, hello.epoch, "", hello.near
        entry.unusable = entry.cut_off = False
        entry.vote_ms = hello.vote_ms
        prefix = f"{hello.site}/"
        self._drop_resources(hello.site)
        if entry.leaving:
            entry.detail = LEAVING
            return
        self.resources.update(
            {
                info.name: replace(info, through=entry.through)
                for info in hello.resources
                if info.name.startswith(prefix)
            }
        )
        machines = (info for name, info in self.resources.items() if name.startswith(prefix))
        by_name = sorted((each for each in machines if each.queue), key=lambda each: each.name)
        self.machines[hello.site] = tuple(by_name[:MACHINES_MAX])

    def lose(self, site: str, detail: str, *, unusable: bool = False, ours: bool = False) -> None:
        """Take note that `site` is not connected; if `ours`, because of this broker.

        One that was lost before that stays lost, for its own reason.
        """
        entry = self.sites[site]
        if ours and not entry.up:
            return
        entry.cut_off = ours
        entry.up, entry.detail, entry.unusable = False, detail, unusable

    def hear_clock(self, site: str, wall_ms: int, now: Moment) -> None:
        """Take note of what the wall clock of `site` shows."""
        self.sites[site].behind_ms = now.wall_ms - wall_ms

    def wall_s_at(self, site: str, now: Moment) -> int:
        """Return the time by the clock of `site`, as far as it is known: of two clocks ours may be wrong."""
        return (now.wall_ms - self.sites[site].behind_ms) // 1000

    def near(self, site: str) -> set[str]:
        """Return the sites that `site` passes visits on to: both list each other as near."""
        return {
            other
            for other in self.sites[site].near
            if other != site and other in self.sites and site in self.sites[other].near
        }

    def is_up(self, site: str) -> bool:
        entry = self.sites.get(site)
        return entry is not None and entry.up

    def leaving(self) -> set[str]:
        """Return the sites at which nothing more is booked."""
        return {name for name, entry in self.sites.items() if entry.leaving}

    def check_homes(self, homes: Iterable[str], where: str = "homes") -> None:
        """Raise `NotFound` for a home of a job that is neither a site here nor a virtual one."""
        known = {*self.sites, *(each for entry in self.sites.values() for each in entry.through)}
        for home in homes:
            if home not in known:
                raise NotFound(
                    f"this broker knows no site {home!r}",
                    where=where,
                    remedy="`kalends sites` lists those that it knows",
                )
