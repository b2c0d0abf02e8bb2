"""Retention: requests that were settled long ago leave the register, with all their changes.

They leave when nothing of them is open or untold, what they reserved ended long ago (sites have dropped that
after a day), and their jobs, if they were any, are known to have ended. Where they go is the store's affair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kalends.broker.coordination.record.decision_record import Unreadable
from kalends.broker.register.contract import Register, Row
from kalends.core.errors import KalendsError
from kalends.core.intervals import Moment
from kalends.serving.logs import Logger
from kalends.stores.group_commit import StoreFailed

LOOK_EVERY_S: Final = 3_600.0
PAGE: Final = 200
"""Reservations read, and put aside, at a time: others write between."""

PAUSE_S: Final = 0.05


class Archive:
    """Puts requests aside that were settled `keep_s` ago; with 0 they stay for ever.

    `store` gives the open store, or None while there is none.
    """

    def __init__(
        self,
        keep_s: int,
        store: Callable[[], Register | None],
        moment: Callable[[], Moment],
        logger: Logger,
    ) -> None:
        self._keep_s = keep_s
        self._store = store
        self._moment = moment
        self._logger = logger

    async def run(self) -> None:
        """Look every hour, until it is cancelled."""
        while self._keep_s:
            try:
                moved = await self.move_settled()
            except (KalendsError, StoreFailed, OSError) as error:
                self._logger.error("archive_failed", reason=str(error))
            else:
                if moved:
                    self._logger.info("archived", requests=moved)
            await asyncio.sleep(LOOK_EVERY_S)

    async def move_settled(self) -> int:
        """Move all that has been settled for long enough; returns how many requests and changes.

        Raises `OSError` when the archive does not take them, `StoreFailed` when the register does not let
        go, and `Unavailable`.
        """
        moved, after = 0, ""
        before_s = self._moment().wall_s - self._keep_s
        while (store := self._store()) is not None:
            page = await store.reservations(after, PAGE)
            if all(_is_young(each.rows[0], before_s) for each in page):
                break
            after = page[-1].id
            old = [each for each in page if all(is_settled(row, before_s) for row in each.rows)]
            if old:
                moved += await store.put_aside(old)
            await asyncio.sleep(PAUSE_S)
        return moved


def is_settled(row: Row, before_s: int) -> bool:
    """Return whether nothing of `row` is left to do, and what it was about ended before `before_s`."""
    if isinstance(row, Unreadable) or not row.done or row.state == "open":
        return False
    if _is_young(row, before_s) or any(each.end >= before_s for each in row.wants):
        return False
    is_job = row.spec.placement is not None and row.state == "commit"
    return not is_job or (row.job.ended is not None and not row.may_start)


def _is_young(row: Row, before_s: int) -> bool:
    """Whether it was made since; ids are in the order in which requests were made."""
    return not isinstance(row, Unreadable) and row.created_ms >= before_s * 1_000
