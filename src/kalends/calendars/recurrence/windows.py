"""The union of several recurrences, expanded piece by piece and kept."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice
from operator import attrgetter
from typing import Final

from kalends.calendars.bookings import check_window
from kalends.calendars.recurrence.recurrence import Recurrence
from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval, joined

CHUNK_S: Final = 1 << 23
"""Seconds expanded at once, about 97 days: a booking's window lies in one or two chunks."""

CHUNKS_MAX: Final = 64
"""Chunks kept; ten years, the longest window that is asked for, are 38."""

_WINDOW_S_MAX: Final = limits.WINDOW_S_MAX + 86_400
"""The longest horizon, and a grain for rounding now down."""

_END = attrgetter("end")


class Windows:
    """The open times of `recurrences`. Immutable but for its cache; not thread-safe."""

    def __init__(self, recurrences: Sequence[Recurrence]) -> None:
        self._recurrences = tuple(recurrences)
        self._chunks: dict[int, list[Interval]] = {}

    def between(self, start: int, end: int) -> list[Interval]:
        """Return the union clipped to ``[start, end)``: sorted, disjoint, not touching.

        Raises `InvalidInput` for an empty window, one outside the years 1970 to 3000, or one longer
        than `limits.WINDOW_S_MAX` and a day. O(log n + found) once its chunks are expanded.
        """
        check_window(start, end)
        if start < 0 or end > limits.TIME_S_MAX or end - start > _WINDOW_S_MAX:
            raise InvalidInput(
                f"[{start}, {end}) is outside the years 1970 to 3000 or longer than ten years",
                where="end",
                remedy="look at a shorter window",
            )
        found: list[Interval] = []
        for number in range(start // CHUNK_S, (end - 1) // CHUNK_S + 1):
            chunk = self._chunk(number)
            for window in islice(chunk, bisect_right(chunk, start, key=_END), None):
                if window.start >= end:
                    break
                opens, closes = max(window.start, start), min(window.end, end)
                if found and found[-1].end == opens:
                    opens = found.pop().start
                found.append(Interval(opens, closes))
        return found

    def cover(self, start: int, end: int) -> bool:
        """Return whether all of ``[start, end)`` is open; raises as `between`."""
        return self.between(start, end) == [(start, end)]

    def whole(self, time_s: int) -> Interval:
        """Return the window that is open at `time_s`, as long as it is; it must be open then.

        One that has no end is told for some years. Raises `InvalidInput` as `between`.
        """
        (found,) = self.between(time_s, time_s + 1)
        start, end = found
        reach_s = CHUNK_S * CHUNKS_MAX // 4
        first, last = max(0, time_s - reach_s), min(limits.TIME_S_MAX, time_s + reach_s)
        while start > first and (before := self.between(max(first, start - CHUNK_S), start)):
            if before[-1].end < start:
                break
            start = before[-1].start
        while end < last and (after := self.between(end, min(last, end + CHUNK_S))):
            if after[0].start > end:
                break
            end = after[0].end
        return Interval(start, end)

    def describe(self) -> str:
        """Describe all recurrences: ``Mon-Fri 08:00-18:00 Europe/Berlin and Sat ...``."""
        return " and ".join(recurrence.describe() for recurrence in self._recurrences)

    def _chunk(self, number: int) -> list[Interval]:
        chunk = self._chunks.get(number)
        if chunk is None:
            if len(self._chunks) >= CHUNKS_MAX:
                del self._chunks[next(iter(self._chunks))]
            chunk = self._chunks[number] = self._expand(number * CHUNK_S, (number + 1) * CHUNK_S)
        return chunk

    def _expand(self, start: int, end: int) -> list[Interval]:
        return joined(
            (max(window.start, start), min(window.end, end))
            for recurrence in self._recurrences
            for window in recurrence.windows(start, end)
        )
