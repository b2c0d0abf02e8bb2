"""Calendar weeks (ISO 8601: from Monday) on the clocks of a zone.

A week begins at the first instant at which the clock shows Monday 00:00 or later; where clocks
change it lasts an hour less or more.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from kalends.core.intervals import Interval
from kalends.core.local_clocks import instant

_WEEK = timedelta(days=7)


def weeks(start: int, end: int, zone: ZoneInfo) -> Iterator[Interval]:
    """Yield the weeks that overlap ``[start, end)``, whole, in order; they touch."""
    shown = datetime.fromtimestamp(start, zone).date()
    monday = datetime.combine(shown - timedelta(days=shown.weekday()), time())
    while True:
        week = Interval(instant(monday, zone), instant(monday + _WEEK, zone))
        if week.start >= end:
            return
        # A clock that is set back over midnight shows Sunday again when Monday has begun.
        if week.end > start:
            yield week
        monday += _WEEK
