"""Checks of web addresses of servers: their form, and whether calls are protected from others."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_HEX: Final = re.compile("0x[0-9a-f]*")

PORTS: Final = {"http": 80, "https": 443}

TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
"""Prefix of IPv6 addresses whose last four bytes are an IPv4 address behind a translator (RFC 6052)."""


def server_parts(url: str) -> SplitResult | None:
    """Return the parts of the address of a server; None for any other text."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    plain = url.isascii() and url.isprintable() and not {" ", "\\"}.intersection(url)
    extra = parts.username is not None or parts.query or parts.fragment
    dots = {".", ".."}.intersection(parts.path.split("/")) or "%" in parts.path
    odd = fine and is_odd_number(host_in(parts))
    return parts if fine and plain and not (extra or dots or odd) else None


def addresses_in(text: str) -> tuple[str, ...]:
    """Return the addresses of servers in a text, which has commas between several; each once."""
    return tuple(dict.fromkeys(each.strip() for each in text.split(",")))


def host_in(parts: SplitResult) -> str:
    """Return the host, without the dot that may end it."""
    return (parts.hostname or "").rstrip(".")


def is_odd_number(host: str) -> bool:
    """Return whether a host is a number, and not written as an IPv4 address is: 127.1, 2130706433, 0x7f.1.

    Systems read such a text as an address, although by its form it is a name (WHATWG URL, 4.1).
    """
    if ":" in host:
        return False
    last = host.rstrip(".").rpartition(".")[2].lower()
    if not (last.isdecimal() or _HEX.fullmatch(last)):
        return False
    try:
        return str(ipaddress.IPv4Address(host)) != host
    except ValueError:
        return True


def is_loopback(host: str) -> bool:
    """Return whether a host, by name or by address, is the loopback interface of this host."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def unwrapped(address: Address) -> Address:
    """Return the IPv4 address in a mapped, 6to4 or translated IPv6 address; otherwise the address itself."""
    if not isinstance(address, ipaddress.IPv6Address):
        return address
    if address in TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


def is_here(url: str) -> bool:
    """Return whether a URL names the loopback interface of this host."""
    parts = server_parts(url)
    return parts is not None and is_loopback(host_in(parts))


def is_guarded(url: str) -> bool:
    """Return whether calls to `url` are protected from others on the network: https, or http on this host.

    The URL may end with a query.
    """
    address, _, query = url.partition("?")
    parts = server_parts(address)
    if parts is None or "#" in query or not query.isprintable():
        return False
    return parts.scheme == "https" or is_loopback(host_in(parts))
