"""The time that has surely passed: what a site may forget by, whatever its clock says today.

A clock that is wrong must not end what is locked, and one reading cannot tell whether it is wrong. What
cannot be wrong is how much time passes while the site runs: the monotonic clock counts that. So a site
keeps a bound that it raises only by counting, and lowers whenever its clock shows less:

    bound = min(bound + what was counted since, what the clock shows)

If the clock was right, or behind, once since the bound was set, then the bound is not above the true
time: it began at or below it, and both have grown by what was counted (the true time also by what the
site was down). It says nothing of a clock that has been ahead all the while, also when the bound was
set. Therefore a bound counts only when it has been followed for `WINDOW_MS` of counted time: until then
it is the candidate, and the one before it stands. A clock that is ahead misleads a site only after it
has been ahead, without a break, for a whole window; one look at the right time begins it anew.

A bound lags by the time that the site was down, or that its clock was behind. The candidate after next
has caught up with that: what is to be forgotten is forgotten in the end, two windows later.

All of it is stored, so that restarts change nothing: a site that is down counts nothing.
"""

from __future__ import annotations

from typing import Final

from kalends.core.intervals import Moment
from kalends.resource_servers.participation.effects import SiteFact

WINDOW_MS: Final = 7 * 86_400_000
"""How long a clock must have been ahead, counted while the site runs, before the site believes it."""

STORE_EVERY_MS: Final = 3_600_000
"""What was counted since is lost when the site stops: the bound is lower by it."""


class TimePassed(SiteFact, frozen=True):
    """Fact: how far the bound, and the candidate for the next, have come (milliseconds UTC).

    `counted_ms` is how long the candidate has been followed; nothing has been counted yet when all are 0.
    """

    sure_ms: int = 0
    candidate_ms: int = 0
    counted_ms: int = 0


class SureTime:
    """Goes on from what was `stored`. Pure: time comes in by `advance`."""

    def __init__(self, stored: TimePassed, now: Moment, *, window_ms: int = WINDOW_MS) -> None:
        self._stored = stored
        self._window_ms = window_ms
        self._sure_ms = stored.sure_ms
        self._candidate_ms = stored.candidate_ms if stored.counted_ms else now.wall_ms
        self._counted_ms = stored.counted_ms
        self._since_ms = now.monotonic_ms
        self._lower(now)

    @property
    def sure_s(self) -> int:
        """The true time is not before this (seconds UTC), unless the clock was ahead for a window."""
        return self._sure_ms // 1000

    def advance(self, now: Moment) -> bool:
        """Count the time since the last call; returns whether a candidate has become the bound."""
        elapsed_ms = max(now.monotonic_ms - self._since_ms, 0)
        self._since_ms = now.monotonic_ms
        self._sure_ms += elapsed_ms
        self._candidate_ms += elapsed_ms
        self._counted_ms += elapsed_ms
        self._lower(now)
        if self._counted_ms < self._window_ms:
            return False
        self._sure_ms = self._candidate_ms
        self._candidate_ms = now.wall_ms
        self._counted_ms = 1
        return True

    def to_store(self) -> TimePassed | None:
        """The fact to be stored now, if what was stored is too high, or has long been too low."""
        passed = TimePassed(self._sure_ms, self._candidate_ms, max(self._counted_ms, 1))
        stored = self._stored
        if (
            passed.sure_ms >= stored.sure_ms
            and passed.candidate_ms >= stored.candidate_ms
            and 0 < stored.counted_ms <= passed.counted_ms < stored.counted_ms + STORE_EVERY_MS
        ):
            return None
        self._stored = passed
        return passed

    def _lower(self, now: Moment) -> None:
        self._sure_ms = min(self._sure_ms, now.wall_ms)
        self._candidate_ms = min(self._candidate_ms, now.wall_ms)
