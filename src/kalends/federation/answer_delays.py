"""Answer delay of a site: the median of its last answers.

The exact median of a short window: up to seven of the fifteen answers that are kept may be as late as they
like and move it no further than the others reach, and a site whose line has become slower is known as
that after eight. A mean would follow every answer that a busy moment held up.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

ANSWERS_KEPT: Final = 15

DELAY_MS_MAX: Final = 60_000.0
"""Answers that come later than that are noted as this: no request waits so long for one."""


def median_of(values: Collection[float]) -> float:
    """Return the value in the middle of at least one; of an even number the later of the two."""
    return sorted(values)[len(values) // 2]


class AnswerDelays:
    """The last `ANSWERS_KEPT` delays of one site."""

    __slots__ = ("_delays_ms", "median_ms")

    def __init__(self) -> None:
        self._delays_ms: tuple[float, ...] = ()
        """In the order in which they were noted."""
        self.median_ms: float | None = None
        """None before the first answer."""

    def note(self, delay_ms: float) -> None:
        """Record that the site took `delay_ms` milliseconds to answer."""
        bounded_ms = min(max(0.0, delay_ms), DELAY_MS_MAX)
        self._delays_ms = (*self._delays_ms[1 - ANSWERS_KEPT :], bounded_ms)
        self.median_ms = median_of(self._delays_ms)

    def check(self) -> None:
        """Raise `AssertionError` if something is wrong with the record."""
        assert len(self._delays_ms) <= ANSWERS_KEPT
        assert all(0 <= each_ms <= DELAY_MS_MAX for each_ms in self._delays_ms)
        assert (self.median_ms is None) == (not self._delays_ms)
        if self.median_ms is not None:
            assert min(self._delays_ms) <= self.median_ms <= max(self._delays_ms)
