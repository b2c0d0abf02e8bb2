"""Names of hosts that others have given, looked up: what may not be called is not found.

The address that was looked at is the one that is connected to, so a name that means one address now and
another one in a moment opens nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult


class GuardedResolver(AbstractResolver):
    """Keeps of what is found for a host only the addresses that it `allows`, called with both.

    Raises `refusal` of the host where none is left. `inner` looks names up.
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
