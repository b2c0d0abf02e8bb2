"""The heart of a replica: renews its lease, takes over from dead replicas, and restarts after a failure."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from kalends.broker.coordination.record.decision_record import Record, Unreadable
from kalends.broker.lives import store_trouble
from kalends.broker.lives.life import Life, Lives
from kalends.broker.lives.replica import BEAT_EVERY_S, Leases
from kalends.broker.reconciliation.site_memory import Memories
from kalends.broker.register import lives, request_reads, request_rows
from kalends.broker.register.broker_store import LeaseRenewal, Write
from kalends.core.errors import KalendsError, Unavailable
from kalends.core.intervals import Moment
from kalends.serving.logs import Logger

REOPEN_EVERY_S: Final = 1.0

ORPHANS_MAX: Final = 500
"""Taken over in one go: the rest follows with the next beat."""


class Heart:
    """Beats until it is stopped; `begin` begins a life, `lease` is what a beat writes.

    `beaten` hears of each beat, `step` gives something to the coordinator.
    """

    def __init__(
        self,
        lives: Lives,
        leases: Leases,
        memories: Memories,
        logger: Logger,
        *,
        begin: Callable[[], Coroutine[Any, Any, None]],
        lease: Callable[[str, Moment], LeaseRenewal],
        look_at_clock: Callable[[], object],
        beaten: Callable[[], None],
        step: Callable[[Callable[[], object]], None],
        alarm: Callable[[str], None],
    ) -> None:
        self._lives = lives
        self._leases = leases
        self._memories = memories
        self._logger = logger
        self._begin = begin
        self._lease = lease
        self._look_at_clock = look_at_clock
        self._beaten = beaten
        self._step = step
        self._alarm = alarm
        self._changed = asyncio.Event()
        """Set when the heart should look: the store has failed, or all sites are connected."""
        self._took_over = False
        """In this life what others have left behind has been looked for."""
        self._beaten_s = 0.0
        """When the lease was renewed last (monotonic)."""
        self._told_unreadable: set[str] = set()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._beat_for_ever())
        self._task.add_done_callback(self._stopped)

    async def stop(self) -> None:
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def life_begins(self) -> None:
        """A life has begun, with a lease that was just written."""
        self._beaten_s = time.monotonic()
        self._took_over = False

    def wake(self) -> None:
        """Beat at once."""
        self._changed.set()

    def certain(self) -> None:
        """The register may be believed: what others have left behind can be looked for."""
        if not self._took_over:
            self._changed.set()

    def silent_s(self) -> float:
        """Seconds since the lease was last renewed."""
        return time.monotonic() - self._beaten_s

    def tell_unreadable(self, rows: Iterable[Unreadable]) -> None:
        """Say once of each row that cannot be read that nobody works on it."""
        for row in rows:
            if row.rid not in self._told_unreadable:
                self._told_unreadable.add(row.rid)
                self._alarm(f"request {row.rid} is left as it is: {row.reason}")

    def _stopped(self, task: asyncio.Task[None]) -> None:
        """It never ends by itself; should it do so all the same, another one takes its place."""
        if not self._stopping:
            why = "" if task.cancelled() else f": {task.exception()!r}"
            self._alarm(f"the heart has stopped{why}")
            self.start()

    async def _beat_for_ever(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), BEAT_EVERY_S)
            self._changed.clear()
            try:
                if self._lives.current is None:
                    await self._begin_anew()
                else:
                    await self._beat_once(self._lives.current)
            except Exception as error:
                # The boundary of one beat: whatever it met, the next one comes.
                self._logger.error("beat_failed", exc_info=error)
                self._alarm(f"a beat of the heart failed: {error!r}")

    async def _beat_once(self, life: Life) -> None:
        """Renew the lease, and take over requests on which no replica works.

        The first time is when all sites have come, or some seconds after the start: a request that is
        taken over sooner would find no site that it can ask, and fail; or it was decided, and the register
        has forgotten it.
        """
        now = self._lives.moment()
        self._look_at_clock()
        orphans: list[request_rows.Row] = []
        try:
            owner = life.coordinator.identity.owner
            writes: list[Write] = [self._lease(owner, now), *self._memories.to_store()]
            await life.store.writer.run(writes)
            self._leases.look(life.store.read(lives.beats), now.monotonic_ms)
            if not self._follow_replicas(life) and life.recognition.is_certain(now.monotonic_ms):
                orphans = self._left_behind(life, owner)
                self._took_over = True
        except Unavailable as error:
            self._lives.fail(error)
            return
        self._beaten_s = time.monotonic()
        self._beaten()
        to_adopt = [row for row in orphans if isinstance(row, Record)]
        if to_adopt:
            self._logger.info("taken_over", count=len(to_adopt))
        for record in to_adopt:
            self._take_over(record)
        self.tell_unreadable(row for row in orphans if isinstance(row, Unreadable))

    def _left_behind(self, life: Life, owner: str) -> list[request_rows.Row]:
        """Requests on which no replica works: of stopped replicas, and of this one."""
        alive = self._leases.all_alive()
        attended = life.coordinator.containment.attended() | self._told_unreadable
        orphans = life.store.read(request_reads.orphans, (owner, *alive), ORPHANS_MAX)
        return orphans + life.store.read(request_reads.unattended, owner, attended, ORPHANS_MAX)

    def _follow_replicas(self, life: Life) -> bool:
        """Whether another replica has found that the register was restored: then this one restarts."""
        put_back = life.store.read(lives.is_put_back)
        if put_back and not life.recognition.put_back:
            self._lives.fail(store_trouble.put_back())
            return True
        life.recognition.put_back = put_back
        return False

    def _take_over(self, record: Record) -> None:
        if self._lives.current is not None:
            coordinator = self._lives.current.coordinator
            self._step(lambda: coordinator.attempts.take_over(record, self._lives.moment()))

    async def _begin_anew(self) -> None:
        await self._lives.close_failed()
        try:
            await self._begin()
        except Exception as error:
            # The boundary of one try: the next one may succeed.
            failure = error.detail if isinstance(error, KalendsError) else repr(error)
            self._lives.failure = failure
            self._logger.error("store_not_opened", reason=str(error))
            await asyncio.sleep(REOPEN_EVERY_S)
            self._changed.set()
