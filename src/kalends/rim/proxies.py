"""The proxy to a server from the environment: one rule for all outgoing calls.

``HTTPS_PROXY`` is for https addresses, ``HTTP_PROXY`` for http ones, and ``ALL_PROXY`` for those without a
specific proxy. ``NO_PROXY`` lists hosts that are reached directly: names with all names below them,
addresses, networks, each with a port if need be, or ``*``. Variables in lower case have priority. Loopback
is always direct.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from kalends.core.errors import InvalidInput


class Proxy(NamedTuple):
    """A proxy, and the `variable` of the environment that names it."""

    url: str
    variable: str

    @property
    def address(self) -> SplitResult:
        return urlsplit(self.url)

    @property
    def name(self) -> str:
        """Return the name of the proxy for errors, without its password."""
        return f"the proxy {self.address.hostname}:{self.address.port or 80} ({self.variable})"

    def headers(self) -> dict[str, str]:
        """Return the header that identifies the caller to the proxy, if its address has a user."""
        parts = self.address
        if parts.username is None:
            return {}
        said = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        return {"Proxy-Authorization": f"Basic {b64encode(said.encode()).decode()}"}


def proxy_for(url: str, environment: Mapping[str, str] | None = None) -> Proxy | None:
    """Return the proxy for calls to `url`; None if it is reached directly.

    Raises `InvalidInput` for a proxy that does not speak HTTP.
    """
    said = os.environ if environment is None else environment
    parts = urlsplit(url)
    for name in (f"{parts.scheme}_proxy", "all_proxy"):
        variable = name if said.get(name) else name.upper()
        named = said.get(variable, "").strip()
        if named and not _is_direct(parts, said):
            return Proxy(_checked(named, variable), variable)
    return None


def proxy_url(url: str) -> str | None:
    """Return the address of the proxy for `url`, in the form for aiohttp."""
    proxy = proxy_for(url)
    return None if proxy is None else proxy.url


def check_proxies() -> None:
    """Raise `InvalidInput` if the environment names a proxy that cannot be used."""
    for scheme in ("http", "https"):
        proxy_for(f"{scheme}://elsewhere.invalid")


def _checked(named: str, variable: str) -> str:
    url = named if "://" in named else f"http://{named}"
    try:
        parts = urlsplit(url)
        usable = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise InvalidInput(
            "not the address of an HTTP proxy",
            where=variable,
            remedy="write http://HOST:PORT, or list the server in NO_PROXY",
        )
    return url


def _is_direct(server: SplitResult, said: Mapping[str, str]) -> bool:
    host = (server.hostname or "").rstrip(".").lower()
    address = _address(host)
    if host == "localhost" or host.endswith(".localhost") or (address and address.is_loopback):
        return True
    listed = said.get("no_proxy") or said.get("NO_PROXY") or ""
    port = server.port or (443 if server.scheme == "https" else 80)
    return any(
        _covers(entry.lower(), host, address, port)
        for entry in re.split(r"[\s,]+", listed)
        if entry
    )


def _covers(entry: str, host: str, address: IPv4Address | IPv6Address | None, port: int) -> bool:
    if entry == "*":
        return True
    if match := re.fullmatch(r"(\[[0-9a-f:]+\]|[^:]+):([0-9]+)", entry):
        if int(match[2]) != port:
            return False
        entry = match[1]
    entry = entry.strip("[]")
    if address is not None:
        try:
            return address in ip_network(entry, strict=False)
        except (ValueError, TypeError):
            return False
    entry = entry.removeprefix("*").lstrip(".").rstrip(".")
    return bool(entry) and (host == entry or host.endswith(f".{entry}"))


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
