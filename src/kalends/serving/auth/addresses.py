"""Addresses of other servers that a server calls, each checked before it is used.

A broker names the addresses at which a site may ask for decisions, and those of other sites. A site asks
there only if its owner allows it. Without a setting it never asks at its own host or on its link, so that
no caller reaches other services through it.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import SplitResult, urlsplit

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from kalends.core.errors import InvalidInput
from kalends.rim.web_addresses import (
    PORTS,
    host_in,
    is_guarded,
    is_loopback,
    server_parts,
    unwrapped,
)


class GuardedResolver(AbstractResolver):
    """A resolver that returns only addresses that `allows` accepts, called with host and address.

    Raises `refusal` of the host if none is left. `inner` looks up names.
    """

    def __init__(
        self,
        allows: Callable[[str, str], bool],
        refusal: Callable[[str], OSError],
        inner: AbstractResolver | None = None,
    ) -> None:
        self._allows = allows
        self._refusal = refusal
        self._inner = inner if inner is not None else ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        allowed = [each for each in found if self._allows(host, each["host"])]
        if found and not allowed:
            raise self._refusal(host)
        return allowed

    async def close(self) -> None:
        await self._inner.close()


@dataclass(frozen=True)
class AllowedAddresses:
    """The addresses that a server may call: those that match one of `patterns`.

    A pattern is an address such as ``https://*.example.org``. Without patterns, all addresses except this
    host and its link; with `at_home`, for a server that is reached from its own host only, these too.
    """

    patterns: tuple[str, ...] = ()
    at_home: bool = False

    def __contains__(self, url: object) -> bool:
        parts = server_parts(url) if isinstance(url, str) else None
        if parts is None:
            return False
        if self.patterns:
            return any(_matches(parts, pattern) for pattern in self.patterns)
        return self.at_home or not (is_loopback(host_in(parts)) or _is_inner(host_in(parts)))

    @property
    def resolver(self) -> AbstractResolver | None:
        """The resolver of host names that refuses forbidden addresses; None if all are allowed."""
        return None if self.patterns or self.at_home else outer_resolver()


def outer_resolver() -> GuardedResolver:
    """Return a resolver that finds neither this host nor hosts on its link, by any name."""
    return GuardedResolver(
        lambda host, address: not _is_inner(address),
        lambda host: OSError(None, f"{host} is this host, or on its link"),
    )


def check_pattern(pattern: str, where: str) -> None:
    """Raises `InvalidInput` unless `pattern` is an address, with ``*`` in its host at most."""
    if server_parts(pattern) is None or "*" in urlsplit(pattern).path:
        raise InvalidInput(
            f"{pattern!r} is not an address of a server",
            where=where,
            remedy="write https:// and a host: https://broker.example.org:7100 or https://*.example.org",
        )


def check_fetched(url: str, where: str) -> None:
    """Raises `InvalidInput` unless `url` is https, or http on this host; it may end with a query."""
    if not is_guarded(url):
        raise InvalidInput(
            f"keys cannot be fetched from {url[:200]!a}",
            where=where,
            remedy="write an https:// address; http:// only for this host",
        )


def _matches(parts: SplitResult, pattern: str) -> bool:
    allowed = urlsplit(pattern)
    below = allowed.path.rstrip("/")
    return (
        parts.scheme == allowed.scheme
        and (parts.port or PORTS[parts.scheme]) == (allowed.port or PORTS[allowed.scheme])
        and fnmatchcase(host_in(parts), host_in(allowed))
        and (parts.path.rstrip("/") == below or parts.path.startswith(f"{below}/"))
    )


def _is_inner(host: str) -> bool:
    """Return whether an address, if `host` is one, is of this host, its link, or of no host at all."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    found = unwrapped(address)
    return found.is_loopback or found.is_link_local or found.is_unspecified or found.is_multicast
