"""Text for sets of whole numbers, with ranges."""

from __future__ import annotations

from collections.abc import Iterable


def numbers_text(numbers: Iterable[int]) -> str:
    """Write ``0-3,7`` for 0, 1, 2, 3 and 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
