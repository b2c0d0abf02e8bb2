"""Archive of settled requests: old ones move from the register to an append-only file.

A request is written there, and synced, before it leaves: after a crash between the two it is there twice. It
leaves with all its changes, when nothing of it is open or untold, what it reserved ended long ago (sites have
dropped that after a day), and its job, if it was one, is known to have ended. What is asked about it later is
answered as of a request that never was, and its key may be used again.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import structs

from kalends.broker.coordination.record.decision_record import Record, Unreadable
from kalends.broker.register import request_reads
from kalends.broker.register.broker_store import BrokerStore, ForgetSettled
from kalends.core.errors import KalendsError
from kalends.core.intervals import Moment
from kalends.serving.logs import Logger
from kalends.stores.sqlite.group_commit import StoreFailed

LOOK_EVERY_S: Final = 3_600.0
PAGE: Final = 200
"""Reservations read, and taken out, at a time: others write between."""

PAUSE_S: Final = 0.05


class Archive:
    """Moves requests that were settled `keep_s` ago to the file at `path`; with 0 they stay for ever.

    `store` gives the open store, or None while there is none. Replicas that share a store share the file.
    """

    def __init__(
        self,
        path: Path,
        keep_s: int,
        store: Callable[[], BrokerStore | None],
        moment: Callable[[], Moment],
        logger: Logger,
    ) -> None:
        self._path = path
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
                self._logger.error("archive_failed", file=str(self._path), reason=str(error))
            else:
                if moved:
                    self._logger.info("archived", file=str(self._path), requests=moved)
            await asyncio.sleep(LOOK_EVERY_S)

    async def move_settled(self) -> int:
        """Move all that has been settled for long enough; returns how many requests and changes.

        Raises `OSError` when the file does not take them, `StoreFailed` when the register does not let go.
        """
        moved, after = 0, ""
        before_s = self._moment().wall_s - self._keep_s
        while (store := self._store()) is not None:
            page = await store.read_slowly(
                partial(request_reads.reservations, after=after, count_max=PAGE)
            )
            if not page:
                break
            after = page[-1][0].rid
            old = [rows for rows in page if all(is_settled(each, before_s) for each in rows)]
            records = [each for rows in old for each in rows if isinstance(each, Record)]
            if records:
                await asyncio.to_thread(self._append, records)
                await store.writer.run((ForgetSettled(tuple(each.rid for each in records)),))
                moved += len(records)
            await asyncio.sleep(PAUSE_S)
        return moved

    def _append(self, records: Sequence[Record]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with os.fdopen(os.dup(descriptor), "ab") as file:
                file.writelines(map(archive_line, records))
                file.flush()
                os.fsync(file.fileno())
        finally:
            os.close(descriptor)


def is_settled(row: Record | Unreadable, before_s: int) -> bool:
    """Return whether nothing of `row` is left to do, and what it was about ended before `before_s`."""
    if isinstance(row, Unreadable) or not row.done or row.state == "open":
        return False
    if row.created_ms >= before_s * 1_000 or any(each.end >= before_s for each in row.wants):
        return False
    is_job = row.spec.placement is not None and row.state == "commit"
    return not is_job or (row.job.ended is not None and not row.may_start)


def archive_line(record: Record) -> bytes:
    """Return `record` as one line of JSON, without the digest of its call."""
    return msgspec.json.encode(structs.replace(record, digest="")) + b"\n"
