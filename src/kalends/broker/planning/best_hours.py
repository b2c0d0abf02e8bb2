"""The hours at which the most occurrences of a series fit.

Every start of the first week is tried, in steps, and each of its occurrences is planned by itself: so what is
shown can be booked, whatever the request is made of.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator
from datetime import datetime, time, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from kalends.contract.series_calls import SeriesHour
from kalends.core.errors import InvalidInput
from kalends.core.full_times import instants
from kalends.core.grains import grain_by
from kalends.core.repeat import parse_repeat
from kalends.core.requests import DAY_S
from kalends.core.series import Occurrence, occurrences

STEP_S: Final = 1_800
PLANS_MAX: Final = 6_000
"""Occurrences that are looked at for one answer: a longer series is tried in longer steps."""


class RepeatedRequest(msgspec.Struct, frozen=True):
    """A series whose first start is open: from the instant `earliest` on, at an hour between `opens_s` and
    `closes_s` of the local day.
    """

    rule: str
    zone: str
    earliest: int
    length_s: int
    opens_s: int = 0
    closes_s: int = DAY_S
    skip: tuple[str, ...] = ()
    grain_s: int = 1
    """Starts are tried where the clock of `grain_zone` shows a multiple of it; the step is one, too."""
    grain_zone: str = "UTC"


class _HoursAlike(NamedTuple):
    """Neighbouring first starts with the same misses; from `first` to `last`."""

    first: tuple[Occurrence, ...]
    last: tuple[Occurrence, ...]
    missed: tuple[str, ...]
    """The days of the misses."""

    @property
    def rank(self) -> tuple[int, int]:
        return len(self.missed), self.first[0].start

    @property
    def hour(self) -> SeriesHour:
        return SeriesHour(
            first=self.first[0].name, last=self.last[0].name, start=self.first[0].start,
            fits=len(self.first) - len(self.missed), of=len(self.first), missed=self.missed,
        )  # fmt: skip


def best_hours(
    wanted: RepeatedRequest, fits: Callable[[int], bool], count: int, step_s: int = STEP_S
) -> tuple[list[SeriesHour], int]:
    """Return the `count` first starts with the fewest misses, and the step in which they were looked for.

    At each of them some occurrence fits. Starts of one day that follow each other and have the same misses
    are one. `fits` says whether an occurrence can begin at an instant. Among equals the earliest comes first.
    Raises `InvalidInput` if the rule cannot be, or no start suits it.
    """
    series, step_s = _series(wanted, step_s)
    best: list[_HoursAlike] = []
    now: _HoursAlike | None = None
    for found in series:
        most = len(best[count - 1].missed) if len(best) >= count else len(found)
        missed = _missed(found, fits, min(most, len(found) - 1))
        if now is not None and missed == now.missed and _follows(now.last[0], found[0], step_s):
            now = now._replace(last=found)
            continue
        if now is not None:
            insort(best, now, key=lambda each: each.rank)
            if len(best) >= count and not best[count - 1].missed:
                return [each.hour for each in best[:count]], step_s
        now = _HoursAlike(found, found, missed) if missed is not None else None
    if now is not None:
        insort(best, now, key=lambda each: each.rank)
    return [each.hour for each in best[:count]], step_s


def _follows(one: Occurrence, other: Occurrence, step_s: int) -> bool:
    return one.name[:10] == other.name[:10] and other.start - one.start == step_s


def _missed(
    found: tuple[Occurrence, ...], fits: Callable[[int], bool], most: int
) -> tuple[str, ...] | None:
    """Return the days of the occurrences that do not fit; None if they are more than `most`."""
    missed: list[str] = []
    for each in found:
        if not fits(each.start):
            missed.append(each.name[:10])
            if len(missed) > most:
                return None
    return tuple(missed)


def _series(wanted: RepeatedRequest, step_s: int) -> tuple[list[tuple[Occurrence, ...]], int]:
    """Return the occurrences from each possible first start, in order, and the step between starts."""
    while True:
        found: dict[tuple[Occurrence, ...], None] = {}
        refused: InvalidInput | None = None
        for first in _first_starts(wanted, step_s):
            try:
                series = occurrences(
                    wanted.rule, first, ZoneInfo(wanted.zone), wanted.length_s, wanted.skip
                )
            except InvalidInput as error:
                refused = refused or error
            else:
                if series[0].start >= wanted.earliest:
                    found[series] = None
        if not found:
            raise refused or InvalidInput(
                "no occurrence of that length lies within these hours",
                where="between",
                remedy="give wider hours, or a shorter length",
            )
        if sum(map(len, found)) <= PLANS_MAX or step_s >= DAY_S:
            return sorted(found, key=lambda series: series[0].start), step_s
        step_s *= 2


def _first_starts(wanted: RepeatedRequest, step_s: int) -> Iterator[datetime]:
    """Yield each local time that may be the first: all days of a week, if the rule says no day."""
    rule, zone = parse_repeat(wanted.rule), ZoneInfo(wanted.zone)
    grain = grain_by(wanted.grain_s, wanted.grain_zone)
    free_days = 7 if rule.frequency == "WEEKLY" and rule.lacks_days else 1
    local = datetime.fromtimestamp(wanted.earliest, zone)
    last_s = wanted.closes_s - (0 if wanted.closes_s == DAY_S else wanted.length_s)
    for day in range(free_days):
        midnight = datetime.combine(local.date(), time()) + timedelta(days=day)
        opens = instants(midnight + timedelta(seconds=wanted.opens_s), zone)
        opens_s = wanted.opens_s + (grain.ceil(opens[0]) - opens[0] if opens else 0)
        for second in range(opens_s, min(last_s, DAY_S - 1) + 1, step_s):
            first = midnight + timedelta(seconds=second)
            shown = instants(first, zone)
            if shown and shown[0] < wanted.earliest:
                first += timedelta(days=free_days)
            yield first
