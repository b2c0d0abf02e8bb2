"""Conversion between instants and the times that a local clock shows.

A local time is the first instant at which the clock shows it or a later time. So a time that is skipped in
spring is the instant of the change, and one that is shown twice in autumn is the first of the two. The most
that a clock has shown by an instant advances and jumps with the clock. While an hour is shown again, it stays
at the last second before the repetition.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

_EPOCH: Final = datetime(1970, 1, 1)


def instant(local: datetime, zone: ZoneInfo) -> int:
    """Return the first second UTC at which the clock of `zone` shows `local` (without zone) or later."""
    first = int(local.replace(tzinfo=zone, fold=0).timestamp())
    second = int(local.replace(tzinfo=zone, fold=1).timestamp())
    if second >= first:
        return first
    # Skipped: the change lies between the readings by the new and by the old offset.
    between = range(second, first + 1)
    return between[bisect_left(between, local, key=lambda time_s: _shown(time_s, zone))]


def begins_day(time_s: int, zone: ZoneInfo) -> bool:
    """Return whether a day begins at `time_s` in `zone`."""
    return instant(datetime.combine(_shown(time_s, zone).date(), time()), zone) == time_s


def first_shown(local_s: int, zone: ZoneInfo) -> int:
    """Return the first second UTC by which the clock has shown `local_s` (seconds from 1970 on it)."""
    return instant(_EPOCH + timedelta(seconds=local_s), zone)


def shown_by(time_s: int, zone: ZoneInfo) -> int:
    """Return the most that the clock has shown by `time_s`, in seconds from 1970 on it."""
    shown = datetime.fromtimestamp(time_s, zone)
    local = shown.replace(tzinfo=None, fold=0)
    if shown.fold:
        # An hour is shown again: the result stays at the end of its first showing.
        before = local.replace(tzinfo=zone, fold=0).utcoffset()
        after = shown.utcoffset()
        assert before is not None
        assert after is not None
        again = range(time_s - int((before - after).total_seconds()), time_s + 1)
        change = again[
            bisect_left(
                again, True, key=lambda at: datetime.fromtimestamp(at, zone).utcoffset() == after
            )
        ]
        local = _shown(change, zone) + (before - after) - timedelta(seconds=1)
    return int((local - _EPOCH).total_seconds())


def _shown(time_s: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(time_s, zone).replace(tzinfo=None, fold=0)
