"""The grain of a resource: its slots start and end where its own clock shows a multiple of it.

It counts from the local midnight: an hour's grain in Kolkata is at full hours there, and that of a day is
the local day, of 23, 24 or 25 hours. Most grains divide every change of their clock. Then they are one
progression of times, with a `phase_s`, and a length is a length of time. A clock change *disturbs* others:
a day's, or four hours'. There a slot's length is what the clock shows, so that two days end at a midnight.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from kalends.core.errors import InvalidInput
from kalends.core.intervals import align_up
from kalends.core.local_clocks import first_shown, shown_by
from kalends.core.resources import ResourceInfo
from kalends.core.times import zone_named

_FINE_S: Final = 900
"""The offsets of all zones, and their changes, are multiples of a quarter of an hour."""

_SAMPLED: Final = (datetime(2020, 1, 1, tzinfo=UTC), timedelta(days=10), 1_000)
"""Times at which the offset of a zone is read: enough for any change that lasts some weeks."""


@dataclass(frozen=True, slots=True)
class Grain:
    """The times at which slots of a resource may start and end; all in seconds UTC."""

    seconds: int
    phase_s: int
    """Added to a time before it is divided; for a disturbed grain, the value of one winter."""
    zone: ZoneInfo | None = None
    """The clock, if its changes disturb the grain; None: one progression."""

    def floor(self, time_s: int) -> int:
        """Return the last time on the grain at or before `time_s`."""
        if self.zone is None:
            return time_s - (time_s + self.phase_s) % self.seconds
        local_s = shown_by(time_s, self.zone)
        return first_shown(local_s - local_s % self.seconds, self.zone)

    def ceil(self, time_s: int) -> int:
        """Return the first time on the grain at or after `time_s`."""
        if self.zone is None:
            return align_up(time_s + self.phase_s, self.seconds) - self.phase_s
        found = self.floor(time_s)
        return found if found == time_s else self.end_of(found, self.seconds)

    def has(self, time_s: int) -> bool:
        """Return whether `time_s` is on the grain."""
        return self.floor(time_s) == time_s

    def end_of(self, start_s: int, length_s: int) -> int:
        """Return when a slot of `length_s` ends that begins at `start_s`."""
        if self.zone is None:
            return start_s + length_s
        return first_shown(shown_by(start_s, self.zone) + length_s, self.zone)

    def length_s(self, start_s: int, end_s: int) -> int:
        """Return the length of a slot by its owner's clock: the inverse of `end_of`."""
        if self.zone is None:
            return end_s - start_s
        return shown_by(end_s, self.zone) - shown_by(start_s, self.zone)


def grain_of(info: ResourceInfo) -> Grain:
    """Return the grain of a resource. A zone that is not known here counts as UTC."""
    return grain_by(info.grain_s, info.zone)


@lru_cache(maxsize=4_096)
def grain_by(seconds: int, zone: str) -> Grain:
    """Return the grain of `seconds` on the clock of `zone`."""
    if _FINE_S % seconds == 0:
        return Grain(seconds, 0)
    phases = {offset % seconds for offset in clock_of(zone)}
    if len(phases) == 1:
        return Grain(seconds, phases.pop())
    return Grain(seconds, clock_of(zone)[0] % seconds, zone_named(zone))


@lru_cache(maxsize=1_024)
def clock_of(zone: str) -> tuple[int, ...]:
    """Return by how much (seconds) the clock of `zone` is ahead of UTC, every ten days of some decades.

    Zones with equal values are the same clock under another name.
    """
    try:
        info = zone_named(zone)
    except InvalidInput:  # The zone of another owner, whose time zone database is newer.
        return (0,)
    first, step, count = _SAMPLED
    times = (first + step * number for number in range(count))
    offsets = (each.astimezone(info).utcoffset() for each in times)
    return tuple(int(each.total_seconds()) if each is not None else 0 for each in offsets)
