"""Expected wait of a job at a site, by its bids.

What was told a moment ago is believed; after ten minutes other jobs have come and gone, and what the site
was like at that hour of the day on other days says more. Hours are those of UTC: a site's busy hours are
learned as such, and nobody has to know in which time zone it lies ("certain times of the day are busier
and this information can be used", Weissman and Grimshaw 1996, section 4.3).

Waits differ by orders of magnitude, so their logarithms are averaged, each counting half as much after
`HALF_LIFE` later ones; little evidence of an hour is drawn towards what is known of all hours, as if that
had been seen a few times as well.
"""

from __future__ import annotations

from math import expm1, log1p
from typing import Final

from kalends.core.intervals import Moment

TOLD_MS: Final = 600_000
"""For so long a wait that was told is believed."""

WAIT_S_MAX: Final = 366 * 86_400
"""Longer waits, and those without an end, are noted as this."""

HOUR_S: Final = 3_600
DAY_HOURS: Final = 24

HALF_LIFE: Final = 16.0
"""In waits that were told."""

KEPT: Final = 0.5 ** (1 / HALF_LIFE)

BROADER_WEIGHT: Final = 4.0
"""As many waits of an hour are outweighed by what is known of all hours, or of all sites."""


def bounded(wait_s: float) -> float:
    """Return the wait in seconds as it is noted: from 0 to `WAIT_S_MAX`; what is no number is 0."""
    return min(max(0.0, wait_s), float(WAIT_S_MAX))


class FadedMean:
    """A faded mean of waits, by their logarithms."""

    __slots__ = ("_seen", "_total")

    def __init__(self) -> None:
        self._seen = self._total = 0.0

    def note(self, wait_s: float) -> None:
        """Record a wait in seconds, within its bounds."""
        self._seen = self._seen * KEPT + 1
        self._total = self._total * KEPT + log1p(bounded(wait_s))

    def towards(self, broader_s: float) -> float:
        """Return the mean in seconds, drawn towards `broader_s` as far as little was seen."""
        weight = self._seen + BROADER_WEIGHT
        return expm1((self._total + BROADER_WEIGHT * log1p(broader_s)) / weight)

    def check(self) -> None:
        """Raise `AssertionError` if something is wrong with the record."""
        assert 0 <= self._seen <= 1 / (1 - KEPT)
        assert 0 <= self._total <= self._seen * log1p(WAIT_S_MAX) * (1 + 1e-9)


class ToldWaits:
    """The waits that one site has told: the last one, and means by hour of the day."""

    __slots__ = ("_all_hours", "_hours", "_told_ms", "_told_s")

    def __init__(self) -> None:
        self._told_s = 0.0
        self._told_ms: int | None = None
        """When it was told (monotonic); None: never."""
        self._all_hours = FadedMean()
        self._hours: dict[int, FadedMean] = {}

    def note(self, wait_s: float, now: Moment) -> None:
        """Record that a bid has told a wait of `wait_s` seconds."""
        self._told_s, self._told_ms = bounded(wait_s), now.monotonic_ms
        self._all_hours.note(wait_s)
        self._hours.setdefault(_hour(now), FadedMean()).note(wait_s)

    def expected_s(self, now: Moment, usual_s: float) -> float:
        """Return the wait to expect in seconds; `usual_s` is that of sites of which nothing is known."""
        if self._told_ms is not None and now.monotonic_ms - self._told_ms < TOLD_MS:
            return self._told_s
        of_site_s = self._all_hours.towards(usual_s)
        of_hour = self._hours.get(_hour(now))
        return of_site_s if of_hour is None else of_hour.towards(of_site_s)

    def check(self) -> None:
        """Raise `AssertionError` if something is wrong with the record."""
        assert self._hours.keys() <= set(range(DAY_HOURS))
        assert 0 <= self._told_s <= WAIT_S_MAX
        for mean in (self._all_hours, *self._hours.values()):
            mean.check()


def _hour(now: Moment) -> int:
    return now.wall_s // HOUR_S % DAY_HOURS
