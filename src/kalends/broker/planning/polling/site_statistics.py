"""Learned statistics of sites: how likely resources are taken, how soon a site answers.

Every observation counts half as much after a number of later ones (an exponentially weighted moving
average with a half-life). Little evidence is drawn towards what is known more broadly, as if that had
been seen a few times as well: an hour of the week towards its site, a site towards a prior. The logarithm
of a round trip has a mean and a variance of its own per site, drawn towards a prior in the same way.

Kept in memory, within a bound. A broker that keeps a `snapshot` goes on where it stopped; one
that does not learns anew, and its first polls go by the priors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kalends.broker.planning.polling.delays import Lognormal
from kalends.core.errors import InvalidInput

SITES_MAX: Final = 1_024
"""The one that was heard of longest ago is forgotten."""

HOUR_S: Final = 3_600
WEEK_HOURS: Final = 168

BUSY_PRIOR: Final = 0.3
BUSY_PRIOR_WEIGHT: Final = 4.0
SITE_WEIGHT: Final = 8.0
"""As many observations of an hour are outweighed by what is known of its site."""

SITE_HALF_LIFE: Final = 64.0
HOUR_HALF_LIFE: Final = 16.0
DELAY_HALF_LIFE: Final = 32.0
"""In observations."""

MEDIAN_PRIOR_MS: Final = 80.0
SIGMA_PRIOR: Final = 0.6
DELAY_PRIOR_WEIGHT: Final = 2.0
DELAY_MS_MIN: Final = 0.1
DELAY_MS_MAX: Final = 60_000.0

BUSY_STEP: Final = 0.05
MEDIAN_STEP: Final = 0.2
SIGMA_STEP: Final = 0.2
SIGMA_MIN: Final = 0.2
SIGMA_MAX: Final = 2.0
"""What is told is rounded: so sites that hardly differ count as equal, and few cases are ever weighed."""


class BusyRate(msgspec.Struct):
    """Faded counts of resources that were seen, and of those that were taken."""

    seen: float = 0.0
    taken: float = 0.0

    def note(self, taken: bool, half_life: float) -> None:
        kept = 0.5 ** (1 / half_life)
        self.seen = self.seen * kept + 1
        self.taken = self.taken * kept + taken

    def towards(self, prior: float, weight: float) -> float:
        return (self.taken + weight * prior) / (self.seen + weight)


class Delays(msgspec.Struct):
    """Faded sums of the logarithms of round trips, and of their squares."""

    seen: float = 0.0
    total: float = 0.0
    squares: float = 0.0

    def note(self, ms: float) -> None:
        kept = 0.5 ** (1 / DELAY_HALF_LIFE)
        logarithm = math.log(min(max(ms, DELAY_MS_MIN), DELAY_MS_MAX))
        self.seen = self.seen * kept + 1
        self.total = self.total * kept + logarithm
        self.squares = self.squares * kept + logarithm**2

    def distribution(self) -> Lognormal:
        """Return the distribution; the prior counts as answers around the site's own mean."""
        prior = math.log(MEDIAN_PRIOR_MS)
        weight = self.seen + DELAY_PRIOR_WEIGHT
        mean = (self.total + DELAY_PRIOR_WEIGHT * prior) / weight
        within = max(self.squares - self.total**2 / self.seen, 0.0) if self.seen else 0.0
        sigma = math.sqrt((within + DELAY_PRIOR_WEIGHT * SIGMA_PRIOR**2) / weight)
        return Lognormal(
            math.exp(_rounded(mean, MEDIAN_STEP)),
            min(max(_rounded(sigma, SIGMA_STEP), SIGMA_MIN), SIGMA_MAX),
        )


class SiteProfile(msgspec.Struct):
    """The statistics of one site; `hours` has the hours of the week (UTC) asked for so far."""

    share: BusyRate = msgspec.field(default_factory=BusyRate)
    hours: dict[int, BusyRate] = msgspec.field(default_factory=dict)
    delays: Delays = msgspec.field(default_factory=Delays)


class Odds:
    """The statistics of all sites, the one heard of last at the end. Not thread-safe."""

    def __init__(self, snapshot: Mapping[str, Any] | None = None) -> None:
        """Restore what `snapshot` has. Raises `InvalidInput` when it is no snapshot."""
        try:
            self._sites = msgspec.convert(snapshot or {}, dict[str, SiteProfile], str_keys=True)
        except msgspec.ValidationError as error:
            raise InvalidInput(
                f"invalid record of site statistics: {error}",
                where="odds",
                remedy="leave the record out; the broker learns the statistics again",
            ) from error

    def snapshot(self) -> dict[str, Any]:
        """Return all statistics as plain data."""
        plain: dict[str, Any] = msgspec.to_builtins(self._sites, str_keys=True)
        return plain

    def note(self, site: str, at_s: int, taken: bool) -> None:
        """Record whether a resource of `site` was taken at `at_s` (UTC seconds)."""
        of_site = self._of(site)
        of_site.share.note(taken, SITE_HALF_LIFE)
        of_site.hours.setdefault(_hour(at_s), BusyRate()).note(taken, HOUR_HALF_LIFE)

    def note_delay(self, site: str, ms: float) -> None:
        """Record that `site` took `ms` to answer."""
        self._of(site).delays.note(ms)

    def busy(self, site: str, at_s: int) -> float:
        """Return the probability that a resource of `site` is taken at `at_s`, inside (0, 1)."""
        of_site = self._sites.get(site, SiteProfile())
        usual = of_site.share.towards(BUSY_PRIOR, BUSY_PRIOR_WEIGHT)
        then = of_site.hours.get(_hour(at_s), BusyRate()).towards(usual, SITE_WEIGHT)
        return min(max(_rounded(then, BUSY_STEP), BUSY_STEP), 1 - BUSY_STEP)

    def delay(self, site: str) -> Lognormal:
        """Return the distribution of the time `site` takes to answer."""
        return self._sites.get(site, SiteProfile()).delays.distribution()

    def _of(self, site: str) -> SiteProfile:
        of_site = self._sites.pop(site, None) or SiteProfile()
        self._sites[site] = of_site
        if len(self._sites) > SITES_MAX:
            del self._sites[next(iter(self._sites))]
        return of_site


def _hour(at_s: int) -> int:
    return at_s // HOUR_S % WEEK_HOURS


def _rounded(value: float, step: float) -> float:
    return round(value / step) * step
