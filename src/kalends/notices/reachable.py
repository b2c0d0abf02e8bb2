"""Network addresses at which webhooks may be called: public ones, and those that the owner opens."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from kalends.rim.web_addresses import Address, is_loopback, unwrapped

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class AddressClosed(OSError):
    """A name of a webhook leads only to addresses that may not be called."""

    def __init__(self, host: str) -> None:
        super().__init__(f"{host} leads to a private address, which webhook_networks does not list")


def is_public(address: Address) -> bool:
    """Return whether an address, and the IPv4 address that may be wrapped in it, are on the public net."""
    found = unwrapped(address)
    if isinstance(found, ipaddress.IPv6Address) and found.teredo is not None:
        return False
    return found.is_global and not found.is_multicast


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
