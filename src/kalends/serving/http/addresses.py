"""Whom a remote address stands for."""

from __future__ import annotations

import ipaddress


def neighbourhood(host: str) -> str:
    """Return what one stranger can speak from: an IPv4 address, or the 64 bits of an IPv6 network.

    Whoever has one address of such a network has all of them. What is no address is itself.
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
