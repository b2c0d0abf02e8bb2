"""Closed times: planned blackouts, and periods reclaimed for maintenance.

What is locked already stays; a blackout is only a reason to refuse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kalends.calendars.recurrence.recurrence import Recurrence
from kalends.calendars.recurrence.windows import Windows
from kalends.core.intervals import Interval

RECLAIMED: Final = "reclaim"
"""The rule that a refusal names during a time which its owner has reclaimed."""


@dataclass(frozen=True, slots=True)
class Blackout:
    """A blackout: no new booking overlaps `times`; refusals name the rule and the `reason`."""

    name: str
    times: tuple[Recurrence, ...]
    reason: str = ""

    def describe(self) -> str:
        """Describe in words: ``closed Sat 08:00-12:00 Europe/Zurich (cleaning)``."""
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.name}: closed {Windows(self.times).describe()}{why}"


class Closure(NamedTuple):
    """A period ``[start, end)`` closed by the rule `rule`."""

    start: int
    end: int
    rule: str
    reason: str


class Blackouts:
    """All that is closed at one resource. Reclaimed times come and go; the planned ones stay."""

    def __init__(self, planned: Iterable[Blackout] = ()) -> None:
        self.planned = tuple(planned)
        self._windows = [(each, Windows(each.times)) for each in self.planned]
        self._reclaimed: dict[str, Closure] = {}

    def reclaim(self, key: str, start: int, end: int, reason: str) -> None:
        """Close ``[start, end)`` until `restore` of the same `key`."""
        self._reclaimed[key] = Closure(start, end, RECLAIMED, reason)

    def restore(self, key: str) -> None:
        """Reopen the period reclaimed by `key`, if there is one."""
        self._reclaimed.pop(key, None)

    def keep_reclaimed(self, before: Blackouts) -> None:
        """Let what is reclaimed by `before` stay closed here."""
        self._reclaimed.update(before._reclaimed)

    def between(self, start: int, end: int) -> list[Closure]:
        """Return the closed times of ``[start, end)``, clipped to it, by start; they may overlap.

        Raises `InvalidInput` as `Windows.between`.
        """
        found = [
            Closure(window.start, window.end, blackout.name, blackout.reason)
            for blackout, windows in self._windows
            for window in windows.between(start, end)
        ]
        found += [
            each._replace(start=max(each.start, start), end=min(each.end, end))
            for each in self._reclaimed.values()
            if each.start < end and start < each.end
        ]
        return sorted(found)

    def first_met(self, start: int, end: int) -> Closure | None:
        """Return the first that closes some of ``[start, end)``, as long as its owner has made it.

        Raises `InvalidInput` as `Windows.between`.
        """
        closed = self.between(start, end) if self else []
        if not closed:
            return None
        first = closed[0]
        at, why = first.start, first[2:]
        whole = [each for each in self._reclaimed.values() if each.start <= at < each.end]
        whole += [
            Closure(*windows.whole(at), blackout.name, blackout.reason)
            for blackout, windows in self._windows
            if windows.between(at, at + 1)
        ]
        return next(each for each in whole if each[2:] == why)

    def open_between(self, start: int, end: int) -> list[Interval] | None:
        """Return where ``[start, end)`` is open, by start; None: all of it."""
        closed = self.between(start, end) if self else []
        if not closed:
            return None
        found = []
        at = start
        for closure in closed:
            if closure.start > at:
                found.append(Interval(at, closure.start))
            at = max(at, closure.end)
        if at < end:
            found.append(Interval(at, end))
        return found

    def __bool__(self) -> bool:
        return bool(self.planned or self._reclaimed)
