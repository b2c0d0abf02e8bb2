"""The short form of times, below a line or a heading that names their zone."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from kalends.core.full_times import date_and_time


def short_time(time_s: int, zone: ZoneInfo) -> str:
    """Format as ``Tue 2026-07-14 08:00``, with seconds if any; the heading names the zone."""
    local = datetime.fromtimestamp(time_s, zone)
    return f"{local:%a} {date_and_time(local)}"
