"""Sites that are away for long: jobs that wait there, and start at most once, get places elsewhere.

A site that comes back after that asks before it starts such a job, and is told that it is over there: so an
absence that was only a cut cable does no harm. All other jobs wait for their site.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from kalends.broker.coordination.decision_record import Record
from kalends.broker.coordination.owner_reclaims import NO_TICKET
from kalends.broker.coordination.places_elsewhere import elsewhere
from kalends.broker.life import Life
from kalends.broker.planning.directory import Directory
from kalends.core.errors import KalendsError
from kalends.core.intervals import Moment
from kalends.serving.logs import Logger
from kalends.stores.sqlite import register

MOVED_MAX: Final = 100
"""Jobs that are moved in one go: the rest follows with a later look."""

AGAIN_MS: Final = 60_000
"""Where there was no place elsewhere, it is looked for again after so long."""


class LostSites:
    """Looks after sites that are away; `lost_ms` is when one is lost, 0: never."""

    def __init__(self, directory: Directory, lost_ms: int, logger: Logger) -> None:
        self._directory = directory
        self._lost_ms = lost_ms
        self._logger = logger
        self._away_since_ms: dict[str, int] = {}
        self._asked_ms: dict[str, int] = {}
        """When another place was asked for, by request (monotonic)."""
        self._times: Counter[str] = Counter()

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

    def move_jobs(self, life: Life, now: Moment) -> None:
        """Ask for other places for jobs whose sites are all lost."""
        lost = self.lost(now)
        if not lost:
            self._asked_ms.clear()
            return
        for record in life.store.read(register.unstarted, lost, MOVED_MAX):
            last_ms = self._asked_ms.get(record.rid)
            if last_ms is None or now.monotonic_ms - last_ms >= AGAIN_MS:
                self._asked_ms[record.rid] = now.monotonic_ms
                self._move(life, record, now)

    def _move(self, life: Life, record: Record, now: Moment) -> None:
        self._times[record.rid] += 1
        # It has spaces, as no user's key has; of replicas that ask at once, one gets it.
        key = f"elsewhere {record.rid} {self._times[record.rid]}"
        self._logger.info("place_elsewhere", rid=record.rid, lost=sorted(record.chosen))
        try:
            life.coordinator.calls.submit(
                record.principal, key, "elsewhere", elsewhere(record), NO_TICKET, now, replaces=record,
                stamp=record.stamp,
            )  # fmt: skip
        except KalendsError as error:
            # Draining, or too much of this user is open: it is asked again.
            self._logger.info("not_placed_elsewhere", rid=record.rid, reason=error.detail)
