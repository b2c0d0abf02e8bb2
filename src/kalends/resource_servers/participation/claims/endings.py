"""Ends of records by time, so that a site looks only at those that have ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sortedcontainers import SortedDict

MINUTE_S: Final = 60


class Endings:
    """Request ids by the minute in which their slots have ended. Pure.

    Those of a store that is opened are in lists, which cost little; one that is dropped before its time
    stays in its list until then. Later ones are taken out when they are dropped.
    """

    def __init__(self) -> None:
        self._loaded: SortedDict[int, list[str]] = SortedDict()
        self._added: SortedDict[int, dict[str, None]] = SortedDict()

    def load(self, rid: str, ends_at: int) -> None:
        """`rid` is of the store that is opened."""
        minute = -(-ends_at // MINUTE_S)
        together = self._loaded.get(minute)
        if together is None:
            together = self._loaded[minute] = []
        together.append(rid)

    def unload(self, rid: str, ends_at: int) -> None:
        """`rid`, which was loaded with this `ends_at`, is not of the store any more."""
        minute = _minute_of(ends_at)
        together = self._loaded[minute]
        together.remove(rid)
        if not together:
            del self._loaded[minute]

    def add(self, rid: str, ends_at: int) -> None:
        """`rid` is over at `ends_at` (UTC seconds). O(log minutes)."""
        self._added.setdefault(_minute_of(ends_at), {})[rid] = None

    def remove(self, rid: str, ends_at: int) -> None:
        """`rid`, which was added with this `ends_at`, is not needed any more. O(log minutes)."""
        minute = _minute_of(ends_at)
        together = self._added.get(minute)
        if together is not None:
            together.pop(rid, None)
            if not together:
                del self._added[minute]

    def is_due(self, limit_s: int) -> bool:
        """Whether `take_due` finds anything. O(1)."""
        return any(
            minutes and minutes.peekitem(0)[0] * MINUTE_S <= limit_s
            for minutes in (self._loaded, self._added)
        )

    def after(self, since_s: int) -> Iterator[str]:
        """Yield what ends after `since_s`, each kind in order of minutes; some perhaps twice."""
        first = since_s // MINUTE_S
        for minutes in (self._loaded, self._added):
            for minute in minutes.irange(minimum=first):
                yield from minutes[minute]

    def take_due(self, limit_s: int, count_max: int) -> list[str]:
        """Take out at most `count_max` that were over at `limit_s`, each kind in order of minutes."""
        due: list[str] = []
        for minutes in (self._loaded, self._added):
            while len(due) < count_max and minutes:
                minute, together = minutes.peekitem(0)
                if minute * MINUTE_S > limit_s:
                    break
                while together and len(due) < count_max:
                    due.append(_pop(together))
                if not together:
                    del minutes[minute]
        return due


def _minute_of(ends_at: int) -> int:
    """The first minute that does not begin before `ends_at`."""
    return -(-ends_at // MINUTE_S)


def _pop(together: list[str] | dict[str, None]) -> str:
    return together.pop() if isinstance(together, list) else together.popitem()[0]
