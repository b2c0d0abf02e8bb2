"""Jobs that are over, read from a site's store by a reader of its own, off the event loop."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from kalends.core.errors import Unavailable

P = ParamSpec("P")
T = TypeVar("T")


class StoreReader:
    """One question at a time; each is answered from what is durable, once all that was stored before is.

    A job that is in its queue no more is found here, from that moment on.
    """

    def __init__(self, path: Path, settled: Callable[[], Awaitable[None]]) -> None:
        self._path = path
        self._settled = settled
        self._one = asyncio.Lock()

    async def read(
        self,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *asked: P.args,
        **named: P.kwargs,
    ) -> T:
        """Return the result of `function`, which gets the connection and the arguments."""
        async with self._one:
            await self._settled()
            return await asyncio.to_thread(
                self._read_now, lambda reader: function(reader, *asked, **named)
            )

    def _read_now(self, function: Callable[[sqlite3.Connection], T]) -> T:
        try:
            reader = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)
            try:
                return function(reader)
            finally:
                reader.close()
        except sqlite3.Error as error:
            raise Unavailable(
                f"the site's store cannot be read now: {error}",
                where="store",
                remedy="try again in a moment",
                retry_after_s=1.0,
            ) from error
