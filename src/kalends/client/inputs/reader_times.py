"""Conversion of times in the texts of servers to the user's zone.

Sites write times in the zone of their owner, and brokers in UTC. Each time is written in full, so that none
changes its meaning.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from kalends.core.errors import KalendsError
from kalends.core.times import in_zone

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
