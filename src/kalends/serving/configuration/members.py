"""Other servers: sites of a broker, members of a virtual site, near sites."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from kalends.contract.messages import SiteName, Url, Way
from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.rim.web_addresses import addresses_in, server_parts
from kalends.serving.configuration.sections import Section


class MemberConfiguration(Section, frozen=True, kw_only=True):
    """A member of a virtual site; `ca` is the file of the authority that signed its certificate."""

    name: SiteName
    url: Url
    ca: Path | None = None


class PeerConfiguration(MemberConfiguration, frozen=True, kw_only=True):
    """A site that a broker books at, or a virtual site, at whose `members` it books.

    `url` may be those of the site and its standby, with a comma between. A virtual site has one.

    A member of a member is written with all names on the way: ``campus/psc``. Users get passes for it and
    its members, unless `passes` is false because its owner does not accept users' passes of this broker.
    """

    members: Annotated[tuple[Way, ...], Meta(max_length=limits.MEMBERS_MAX)] = ()
    passes: bool = True


class NearConfiguration(Section, frozen=True, kw_only=True):
    """A near site to which this one passes on agents' visits that ask both.

    Its owner must list the public half of `key`, with the scope ``near``. Without `key` the near site must
    have open access (loopback).
    """

    name: SiteName
    url: Url
    key: Path | None = None
    ca: Path | None = None


def check_members(sites: Sequence[PeerConfiguration]) -> None:
    """Raises `InvalidInput` unless each site is reached in one way, without a circle."""
    names = [site.name for site in sites]
    for index, site in enumerate(sites):
        for number, way in enumerate(site.members):
            where = f"broker.sites[{index}].members[{number}]"
            on_the_way = [site.name, *way.split("/")]
            if len(set(on_the_way)) < len(on_the_way):
                raise InvalidInput(
                    f"{' -> '.join(on_the_way)} is a circle",
                    where=where,
                    remedy="leave the member out: a virtual site cannot be on the way to itself",
                )
            name = on_the_way[-1]
            if name in names:
                raise InvalidInput(
                    f"{name!r} is listed twice",
                    where=where,
                    remedy="name each site once: with its own url, or as a member of one virtual site",
                )
            names.append(name)


def check_urls(members: Sequence[MemberConfiguration], where: str) -> None:
    for index, member in enumerate(members):
        urls = addresses_in(member.url)
        if len(urls) > 1 and not (isinstance(member, PeerConfiguration) and not member.members):
            raise InvalidInput(
                "several addresses are only for a site that a broker reaches straight",
                where=f"{where}[{index}].url",
                remedy="give one address",
            )
        for url in urls:
            if server_parts(url) is not None:
                continue
            raise InvalidInput(
                f"{url!r} is not the address of a server",
                where=f"{where}[{index}].url",
                remedy="write http:// or https://, a host, and its port if need be",
            )
