"""Time zones at the edge: the zone of this computer, named zones, and the user's zone in texts of servers.

Sites write times in the zone of their owner, and brokers in UTC. In the user's zone each time is written in
full, so that none changes its meaning.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from kalends.core.errors import InvalidInput, KalendsError
from kalends.core.times import check_time, in_zone
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


E = TypeVar("E", bound=KalendsError)

_OF_USERS: Final = frozenset({"value", "environment", "arguments", "note", "record"})
"""Fields with texts of users or their programs, which stay as they are."""

_TEXTS: Final = frozenset({"detail", "remedy", "reasons"})
"""Fields of answers that are texts of the server, or lists of such."""


def error_in_zone(error: E, zone: ZoneInfo) -> E:
    """Return `error` with the times in its texts, and in those of its refusals, converted to `zone`."""
    error.detail = in_zone(error.detail, zone)
    error.remedy = in_zone(error.remedy, zone)
    error.refusals = tuple(
        msgspec.structs.replace(each, detail=in_zone(each.detail, zone)) for each in error.refusals
    )
    return error


def answer_in_zone(raw: Any, zone: ZoneInfo) -> Any:
    """Return a decoded answer with the times in the server's texts converted to `zone`."""
    if isinstance(raw, list | tuple):
        return [answer_in_zone(each, zone) for each in raw]
    if not isinstance(raw, dict):
        return raw
    return {name: _field_in_zone(name, value, zone) for name, value in raw.items()}


def _field_in_zone(name: object, value: Any, zone: ZoneInfo) -> Any:
    if name in _OF_USERS:
        return value
    return _text_in_zone(value, zone) if name in _TEXTS else answer_in_zone(value, zone)


def _text_in_zone(value: Any, zone: ZoneInfo) -> Any:
    if isinstance(value, list | tuple):
        return [_text_in_zone(each, zone) for each in value]
    return in_zone(value, zone) if isinstance(value, str) else answer_in_zone(value, zone)
