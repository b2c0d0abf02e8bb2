"""Times of many calls as a few figures, and figures as a table."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple


class Spread(NamedTuple):
    """Milliseconds: the middle, what 95 and 99 of 100 stay below, and how many were measured."""

    p50_ms: float
    p95_ms: float
    p99_ms: float
    calls: int

    def cells(self) -> list[str]:
        return [f"{value:.2f}" for value in self[:3]]


def spread(times_ms: Iterable[float]) -> Spread:
    ordered = sorted(times_ms)
    return Spread(
        percentile(ordered, 0.5), percentile(ordered, 0.95), percentile(ordered, 0.99), len(ordered)
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all do not exceed; NaN where there is none."""
    if not ordered:
        return float("nan")
    return ordered[max(-int(-share * len(ordered) // 1) - 1, 0)]


async def timed_ms(call: Callable[[], Awaitable[Any]]) -> float:
    began_s = time.perf_counter()
    await call()
    return (time.perf_counter() - began_s) * 1e3


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns as wide as what is in them: texts to the left, numbers to the right."""
    cells = [list(head), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ["", title]
    for row in cells:
        fitted = [
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(fitted).rstrip())
    return "\n".join(lines)
