"""The sites that a broker knows: their resources as they last said, and whether they are connected."""

from __future__ import annotations

from dataclasses import dataclass

from kalends.contract.messages import Hello
from kalends.core.resources import ResourceInfo


@dataclass(slots=True)
class SiteEntry:
    """`url` is where peers reach the site; `epoch` counts its starts; `near` are those it passes on to."""

    name: str
    url: str
    up: bool = False
    epoch: int = 0
    detail: str = "not connected yet"
    near: tuple[str, ...] = ()


class Directory:
    """By name; sites are fixed by the broker's configuration, resources come with each Hello."""

    def __init__(self, sites: dict[str, str]) -> None:
        self.sites = {name: SiteEntry(name, url) for name, url in sites.items()}
        self.resources: dict[str, ResourceInfo] = {}

    def greet(self, hello: Hello) -> None:
        """Take note of what a connected site has; resources outside its own name are left out."""
        entry = self.sites[hello.site]
        entry.up, entry.epoch, entry.detail, entry.near = True, hello.epoch, "", hello.near
        prefix = f"{hello.site}/"
        for name in [name for name in self.resources if name.startswith(prefix)]:
            del self.resources[name]
        self.resources.update(
            {info.name: info for info in hello.resources if info.name.startswith(prefix)}
        )

    def lose(self, site: str, detail: str) -> None:
        self.sites[site].up = False
        self.sites[site].detail = detail

    def near(self, site: str) -> set[str]:
        """The sites that `site` passes visits on to: each of the two says of the other that it is near."""
        return {
            other
            for other in self.sites[site].near
            if other != site and other in self.sites and site in self.sites[other].near
        }

    def is_up(self, site: str) -> bool:
        entry = self.sites.get(site)
        return entry is not None and entry.up
