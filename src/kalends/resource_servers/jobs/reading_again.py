"""Reading of the store again and again, for parts of a site that may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from kalends.core.errors import Unavailable

T = TypeVar("T")

AGAIN_S: Final = 1.0


async def read_again(read: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `read`, as soon as the store can be read; cancelled at the end of a life."""
    while True:
        try:
            return await read()
        except Unavailable:
            await asyncio.sleep(AGAIN_S)
