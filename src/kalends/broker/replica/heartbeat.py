"""The heartbeat of a replica: renews the lease, takes over from dead replicas, and restarts."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from kalends.broker.coordination.record.decision_record import Record, Unreadable
from kalends.broker.reconciliation.site_memory import Memories
from kalends.broker.register.contract import Outlook
from kalends.broker.register.writes import LeaseRenewal, Resign, Write
from kalends.broker.replica import store_errors
from kalends.broker.replica.leases import BEAT_EVERY_S, Leases
from kalends.broker.replica.replica import Incarnation, Replica
from kalends.core.errors import KalendsError, Unavailable
from kalends.core.intervals import Moment
from kalends.serving.logs import Logger

REOPEN_EVERY_S: Final = 1.0

ORPHANS_MAX: Final = 500
"""Taken over in one go: the rest follows with the next beat."""


class Heartbeat:
    """Beats until it is stopped; `begin` begins an incarnation, `lease` is what a beat writes.

    `beaten` hears of each beat, `step` gives something to the coordinator.
    """

    def __init__(
        self,
        replica: Replica,
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
        self._replica = replica
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
        """Set when a beat is due at once: the store has failed, or all sites are connected."""
        self._took_over = False
        """In this incarnation what others have left behind has been looked for."""
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

    def incarnation_begins(self) -> None:
        """An incarnation has begun, with a lease that was just written."""
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
            if self._stopping:
                # Before Python 3.12 wait_for swallows a cancel that comes together with its result.
                return
            self._changed.clear()
            try:
                if self._replica.current is None:
                    await self._begin_anew()
                else:
                    await self._beat_once(self._replica.current)
            except Exception as error:
                # The boundary of one beat: whatever it met, the next one comes.
                self._logger.error("beat_failed", exc_info=error)
                self._alarm(f"a beat of the heart failed: {error!r}")

    async def _beat_once(self, current: Incarnation) -> None:
        """Renew the lease, and take over requests on which no replica works.

        The first time is when all sites have come, or some seconds after the start: a request that is
        taken over sooner would find no site that it can ask, and fail; or it was decided, and the register
        has forgotten it.
        """
        self._look_at_clock()
        try:
            outlook = await self._renew(current)
            await self._take_over_what_is_left(current, outlook)
            self._replica.check_still(current)
            self._beaten()
        except Unavailable as error:
            if self._replica.current is current:
                self._replica.fail(error)

    async def _renew(self, current: Incarnation) -> Outlook:
        """Renew the lease, and look at all others'; raises `Unavailable`."""
        owner = current.coordinator.identity.owner
        lease = self._lease(owner, self._replica.moment())
        writes: list[Write] = [lease, *self._memories.to_store()]
        await current.store.writer.run(writes)
        self._replica.check_still(current)
        asked_ms, put_back = self._replica.moment().monotonic_ms, current.recognition.put_back
        outlook = await current.store.look()
        self._replica.check_still(current)
        self._leases.look(outlook.beats, asked_ms, self._replica.moment().monotonic_ms)
        elsewhere: Counter[str] = Counter()
        for other in self._leases.all_alive():
            elsewhere.update(outlook.open_requests.get(other, {}) if other != owner else {})
        current.coordinator.calls.open_elsewhere = elsewhere
        if outlook.put_back and not put_back:
            # Another replica has found that the register was restored: this one restarts.
            raise store_errors.put_back()
        if not outlook.put_back:
            current.recognition.put_back = False
        self._beaten_s = time.monotonic()
        return outlook

    async def _take_over_what_is_left(self, current: Incarnation, outlook: Outlook) -> None:
        """Requests on which no replica works: of stopped replicas, and of this one; raises `Unavailable`."""
        if not current.recognition.has_listened(self._replica.moment().monotonic_ms):
            return
        attended = current.coordinator.containment.attended() | self._told_unreadable
        orphans = await current.store.left_behind(
            current.coordinator.identity.owner, self._leases.all_alive(), attended, ORPHANS_MAX
        )
        self._replica.check_still(current)
        self._took_over = True
        to_adopt = [row for row in orphans if isinstance(row, Record)]
        if to_adopt:
            self._logger.info("taken_over", count=len(to_adopt))
        for record in to_adopt:
            self._take_over(record)
        self.tell_unreadable(row for row in orphans if isinstance(row, Unreadable))
        if not orphans:
            await self._forget_dead(current, outlook)

    async def _forget_dead(self, current: Incarnation, outlook: Outlook) -> None:
        """Take out owners without requests: one that is alive after all begins again."""
        gone = outlook.beats.keys() - self._leases.all_alive() - outlook.open_requests.keys()
        gone -= {current.coordinator.identity.owner}
        if gone:
            await current.store.writer.run([Resign(owner) for owner in sorted(gone)])
            self._replica.check_still(current)

    def _take_over(self, record: Record) -> None:
        if self._replica.current is not None:
            coordinator = self._replica.current.coordinator
            self._step(lambda: coordinator.attempts.take_over(record, self._replica.moment()))

    async def _begin_anew(self) -> None:
        await self._replica.close_failed()
        try:
            await self._begin()
        except Exception as error:
            # The boundary of one try: the next one may succeed.
            failure = error.detail if isinstance(error, KalendsError) else repr(error)
            if failure != self._replica.failure:
                self._logger.error("store_not_opened", reason=str(error))
            self._replica.failure = failure
            await asyncio.sleep(REOPEN_EVERY_S)
            self._changed.set()
