"""Time zones at the edge: the zone of this computer, named zones, and seconds as aware datetimes."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from kalends.core.errors import InvalidInput
from kalends.core.times import check_time
from kalends.core.zone_names import given_zone, zone_named

_LOCALTIME = Path("/etc/localtime")


def as_datetime(time_s: int, zone: str = "UTC") -> datetime:
    """Return `time_s` (seconds UTC) as an aware datetime in `zone` (an IANA name).

    Raises `InvalidInput` for an unknown zone or an abbreviation (EST), and for a time that is not between
    1970 and 3000.
    """
    return datetime.fromtimestamp(check_time(time_s, where="time_s"), given_zone(zone))


def local_zone() -> ZoneInfo:
    """Return this computer's zone, from ``TZ`` or ``/etc/localtime``, else UTC."""
    for name in (os.environ.get("TZ", "").lstrip(":"), _localtime_name()):
        if not name:
            continue
        try:
            return zone_named(name)
        except InvalidInput:
            continue
    return ZoneInfo("UTC")


def _localtime_name() -> str:
    """Return the zone's name in the place that ``/etc/localtime`` links to; empty when it links nowhere."""
    try:
        target = os.readlink(_LOCALTIME)
    except OSError:
        return ""
    return target.partition("zoneinfo/")[2]
