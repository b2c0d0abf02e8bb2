"""Records and output of ended jobs, which a machine keeps for a time.

What users have written to files of their own is never touched. A job's row of history stays for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kalends.batch.shepherds.launcher import Launcher
from kalends.serving.logs import Logger

FIRST_LOOK_S: Final = 60.0
LOOK_EVERY_S: Final = 3_600.0

FORGOTTEN_AT_ONCE: Final = 50
"""A site that comes to have a million old records goes through them a few at a time."""


@dataclass(eq=False)
class KeptOutput:
    """Drops the attempts of jobs whose record has not changed for `keep_s`.

    `sure_s` tells the time that has surely passed: a clock that is ahead drops nothing. `is_over` says of a
    job that its end is known; there may be records that the queue knows nothing of, in a store that was
    brought back, and these stay.
    """

    machine: str
    launcher: Launcher
    keep_s: int
    sure_s: Callable[[], int]
    is_over: Callable[[int], bool]
    logger: Logger
    _task: asyncio.Task[None] | None = field(init=False, default=None)

    def start(self) -> None:
        """Look in a minute, and then every hour."""
        self._task = asyncio.create_task(self._look_regularly())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> int:
        """Drop what is old; return of how many attempts. Raises `OSError` where the folder cannot be read."""
        unchanged_since_s = self.sure_s() - self.keep_s
        old = await asyncio.to_thread(self.launcher.unchanged_since, unchanged_since_s)
        over = [name for name in old if self.is_over(int(name.partition(".")[0]))]
        for first in range(0, len(over), FORGOTTEN_AT_ONCE):
            for name in over[first : first + FORGOTTEN_AT_ONCE]:
                await self.launcher.forget(name)
            await asyncio.sleep(0)
        return len(over)

    async def _look_regularly(self) -> None:
        await asyncio.sleep(FIRST_LOOK_S)
        while True:
            try:
                dropped = await self.look()
            except OSError as error:
                self.logger.error("output_not_dropped", machine=self.machine, detail=str(error))
            else:
                if dropped:
                    self.logger.info("output_dropped", machine=self.machine, attempts=dropped)
            await asyncio.sleep(LOOK_EVERY_S)
