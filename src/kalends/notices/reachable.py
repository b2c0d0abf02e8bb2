"""Which addresses on the net webhooks may be called at: the public ones, and those the owner opens.

The address that was looked at is the one that is connected to, so a name that means one address now and
another one in a moment opens nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from typing import Final

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from kalends.rim.web_addresses import is_loopback

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
"""The last four bytes are an IPv4 address, behind a translator (RFC 6052)."""


class AddressClosed(OSError):
    """A name of a webhook leads only to addresses that may not be called."""


def is_public(address: Address) -> bool:
    """Return whether an address, and the IPv4 address that may be wrapped in it, are on the public net."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in TRANSLATED:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if address.teredo is not None:
            return False
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast


class OpenNets:
    """The networks that the owner lets webhooks be called in, besides the public one."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks: list[Network] = [ipaddress.ip_network(each) for each in networks]

    def allow(self, host: str, address: str) -> bool:
        """Return whether `host` may be called at `address`, which it leads to."""
        found = ipaddress.ip_address(address.partition("%")[0])
        if is_public(found) or any(found in network for network in self._networks):
            return True
        return is_loopback(host) and found.is_loopback


class GuardedResolver(AbstractResolver):
    """Looks names up, and keeps of what it finds only what may be called."""

    def __init__(self, nets: OpenNets, inner: AbstractResolver | None = None) -> None:
        self._nets = nets
        self._inner = inner if inner is not None else ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        allowed = [each for each in found if self._nets.allow(host, each["host"])]
        if found and not allowed:
            raise AddressClosed(
                f"{host} leads to a private address, which webhook_networks does not list"
            )
        return allowed

    async def close(self) -> None:
        await self._inner.close()
