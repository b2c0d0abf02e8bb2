"""Sites that are away for long: jobs that wait there, and ask before they start, get places elsewhere.

When such a site is back, jobs that have left it and still wait are asked for there once more: each goes back
if it starts sooner there than at its new place.

A site that comes back after that asks before it starts such a job, and is told that it is over there: so an
absence that was only a cut cable does no harm. A job that may start twice gets another place though it has
started, too: it may still run at the lost site, which ends it when it is back. All other jobs wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.jobs.parts.places_elsewhere import SILENT, submit_elsewhere
from kalends.broker.planning.directory import Directory
from kalends.broker.register.contract import Stranded
from kalends.broker.replica.replica import Incarnation
from kalends.core.errors import KalendsError
from kalends.core.intervals import Moment
from kalends.serving.logs import Logger

MOVED_MAX: Final = 100
"""Jobs that are moved in one go: the rest follows with a later look."""

AGAIN_MS: Final = 60_000
AGAIN_MS_MAX: Final = 3_600_000
"""Where there was no place elsewhere it is looked for again after a minute, later after up to an hour."""


BACK_S: Final = 60
"""Replicas that see a site come back within the same minute ask for one place there together."""


class _Rest(NamedTuple):
    until_ms: int
    """When another place is asked for again (monotonic)."""
    for_ms: int


class LostSites:
    """Looks after sites that are away; `lost_ms` is when one is lost, 0: never."""

    def __init__(self, directory: Directory, lost_ms: int, logger: Logger) -> None:
        self._directory = directory
        self._lost_ms = lost_ms
        self._logger = logger
        self._away_since_ms: dict[str, int] = {}
        self._lost: set[str] = set()
        """Sites that were lost when that was last looked at."""
        self._rests: dict[str, _Rest] = {}
        """By request: how long to wait before another place is asked for again."""

    def lost(self, now: Moment) -> list[str]:
        """Return the sites that are away for so long, as far as this replica knows."""
        for name in self._directory.sites:
            if self._directory.is_up(name):
                self._away_since_ms.pop(name, None)
            else:
                self._away_since_ms.setdefault(name, now.monotonic_ms)
        if not self._lost_ms:
            return []
        since = self._away_since_ms.items()
        return [name for name, ms in since if now.monotonic_ms - ms >= self._lost_ms]

    async def look(self, current: Incarnation, now: Moment) -> Callable[[Moment], None]:
        """Find jobs whose sites are all lost, and those that wait for sites which are back.

        Returns what asks for other places for them. Until that is done, nothing has changed.
        """
        lost = self.lost(now)
        waiting = [
            (site, await current.store.left(site, SILENT, MOVED_MAX))
            for site in sorted(self._lost.difference(lost))
        ]
        stranded: Sequence[Stranded] = ()
        if lost:
            resting = [rid for rid, each in self._rests.items() if each.until_ms > now.monotonic_ms]
            stranded = await current.store.stranded(lost, resting, MOVED_MAX)
        return partial(self._move_jobs, current, lost, waiting, stranded)

    def _move_jobs(
        self,
        current: Incarnation,
        lost: Sequence[str],
        waiting: Sequence[tuple[str, Sequence[Record]]],
        stranded: Sequence[Stranded],
        now: Moment,
    ) -> None:
        self._lost = set(lost)
        for site, records in waiting:
            for record in records:
                self._go_back(current, record, site, now)
        if not lost:
            self._rests.clear()
        for record, number in stranded:
            before = self._rests.get(record.rid)
            for_ms = min(before.for_ms * 2, AGAIN_MS_MAX) if before is not None else AGAIN_MS
            self._rests[record.rid] = _Rest(now.monotonic_ms + for_ms, for_ms)
            self._move(current, record, number, now)

    def _go_back(self, current: Incarnation, record: Record, site: str, now: Moment) -> None:
        self._logger.info("place_asked_back", rid=record.rid, site=site)
        try:
            submit_elsewhere(
                current.coordinator.calls, record, now.wall_s // BACK_S, now, by=site,
                why="the site is back, and the job starts sooner there", back_to=site,
            )  # fmt: skip
        except KalendsError as error:
            self._logger.info("not_asked_back", rid=record.rid, reason=error.detail)

    def _move(self, current: Incarnation, record: Record, number: int, now: Moment) -> None:
        self._logger.info("place_elsewhere", rid=record.rid, lost=sorted(record.chosen))
        try:
            submit_elsewhere(
                current.coordinator.calls, record, number, now,
                by=", ".join(sorted(record.chosen)), why=SILENT, lost=True,
            )  # fmt: skip
        except KalendsError as error:
            # Draining, or too much of this user is open: it is asked again.
            self._logger.info("not_placed_elsewhere", rid=record.rid, reason=error.detail)
