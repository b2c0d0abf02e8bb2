"""The clocks of time zones as tables: a worker can open no files, so they are brought along."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType

from kalends.agents.runs import ClockTable
from kalends.agents.world.visible_calendar import Shown
from kalends.core.errors import InvalidInput
from kalends.core.limits import DURATION_S_MAX, OFFSET_S_MAX, TIME_S_MAX, WINDOW_S_MAX
from kalends.core.times import zone_named

_DAY_S = 86_400
_LENGTH_S_MAX = WINDOW_S_MAX + DURATION_S_MAX + 2 * OFFSET_S_MAX
"""Longest time of a request; a visit that claims more must not cost a site seconds."""


def zones_of(
    shown: Mapping[str, Shown],
    first_s: int,
    last_s: int,
    arguments: Mapping[str, object] = MappingProxyType({}),
) -> dict[str, ClockTable]:
    """Return the clocks of UTC and of every zone, from a day before `first_s` to a year after `last_s`.

    So are those of the zone that the argument ``zone`` names, if there is one of that name: users live
    elsewhere than resources. Of a longer time than any request may ask about, the end has the clock
    before it. Raises `InvalidInput` for a resource's zone that does not exist.
    """
    tables = clocks_of({here.info.zone for here in shown.values()}, first_s, last_s)
    wished = arguments.get("zone")
    if isinstance(wished, str) and wished not in tables:
        try:
            tables |= clocks_of({wished}, first_s, last_s)
        except InvalidInput:
            return tables
    return tables


def clocks_of(zones: Set[str], first_s: int, last_s: int) -> dict[str, ClockTable]:
    """Return the clocks of UTC and of `zones`, as `zones_of` does; raises `InvalidInput`."""
    start = max(first_s - _DAY_S, 0)
    end = min(last_s + 366 * _DAY_S, start + _LENGTH_S_MAX, TIME_S_MAX)
    return {name: _table(name, start, end) for name in sorted({"UTC", *zones})}


def _table(zone: str, start: int, end: int) -> ClockTable:
    table = [(start, _offset_s(zone, start))]
    for year in range(_year(start), _year(end) + 1):
        table.extend(change for change in _changes(zone, year) if start < change[0] < end)
    return tuple(table)


@lru_cache(maxsize=1_024)
def _changes(zone: str, year: int) -> tuple[tuple[int, int], ...]:
    """Return the moments of a year (UTC) at which the clocks of `zone` change, and what they change to."""
    begins, ends = (int(datetime(each, 1, 1, tzinfo=UTC).timestamp()) for each in (year, year + 1))
    return tuple(
        change
        for before in range(begins - 1, ends - 1, _DAY_S)
        for change in _between(zone, before, min(before + _DAY_S, ends - 1))
    )


def _between(zone: str, before: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield changes after `before` and up to `last`, within a day: at most one, or two that differ."""
    after_s = _offset_s(zone, last)
    while (offset_s := _offset_s(zone, before)) != after_s:
        low, high = before, last
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _offset_s(zone, middle) == offset_s else (low, middle)
        before = high
        yield high, _offset_s(zone, high)


def _offset_s(zone: str, time_s: int) -> int:
    offset = datetime.fromtimestamp(time_s, zone_named(zone)).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def _year(time_s: int) -> int:
    return datetime.fromtimestamp(time_s, UTC).year
