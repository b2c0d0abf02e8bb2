"""Lookup of host names from other parties that does not find forbidden addresses.

The address that was checked is the one that is connected to, so a name whose address changes in between
gives no access.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult


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
