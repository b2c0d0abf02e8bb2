"""The range of remote addresses that counts as one unknown caller."""

from __future__ import annotations

import ipaddress


def neighbourhood(host: str) -> str:
    """Return the range of one unknown caller: an IPv4 address, or the 64 bits of an IPv6 network.

    A caller with one address of such a network has all of them. A text that is not an address is returned
    as it is.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
