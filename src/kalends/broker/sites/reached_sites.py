"""The sites that a broker books at, and the way to each: straight, or by virtual sites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kalends.contract.paths import member_url
from kalends.serving.configuration import PeerConfiguration


class ReachedSite(NamedTuple):
    """A site at `url`; `ca`, a file, or `ca_text`, its content, signed the certificate that is shown there.

    `virtual` is the virtual site that it is reached by, and `way` the names from there; "": by none.
    `takes_passes`: it believes the broker's key also for users (`kalends.broker.sites.site_passes`).
    Nothing more is booked at a site that is `leaving`.
    """

    name: str
    url: str
    ca: Path | None
    virtual: str = ""
    way: str = ""
    takes_passes: bool = True
    ca_text: str = ""
    leaving: bool = False


def reached_sites(configured: Sequence[PeerConfiguration]) -> Iterator[ReachedSite]:
    """Yield each site once, in the order of the configuration: in place of a virtual site its members."""
    for each in configured:
        if not each.members:
            yield ReachedSite(each.name, each.url, each.ca, takes_passes=each.passes)
        for way in each.members:
            yield ReachedSite(
                way.split("/")[-1], member_url(each.url, way), each.ca, each.name, way, each.passes
            )
