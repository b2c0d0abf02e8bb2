"""Steps: how the work of a script is counted, and how it ends when there are none left."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from kalends.agents.language import limits


class Meter:
    """Counts steps down, and calls of the script's functions inside one another.

    `exhausted` is called when no step is left. It must not return: it ends the process, or raises
    what no guard catches. Scripts have no `try`.
    """

    __slots__ = ("_exhausted", "_steps_max", "depth", "left")

    def __init__(self, steps_max: int, exhausted: Callable[[], NoReturn]) -> None:
        self._steps_max = self.left = steps_max
        self._exhausted = exhausted
        self.depth = 0

    @property
    def steps(self) -> int:
        """Steps used so far; never more than were allowed."""
        return self._steps_max - max(0, self.left)

    def charge(self, steps: int) -> None:
        """Pay `steps`, or end the run."""
        self.left -= steps
        if self.left < 0:
            self._exhausted()

    def charge_text(self, chars: int) -> None:
        """Pay for a pass over this number of characters."""
        self.charge(1 + (chars >> limits.CHARS_PER_STEP_BITS))

    def enter(self, steps: int) -> None:
        """Enter a function of the script. Raises `RecursionError` inside too many others."""
        self.charge(steps)
        self.depth += 1
        if self.depth > limits.CALLS_MAX:
            raise RecursionError(f"more than {limits.CALLS_MAX} calls inside one another")

    def leave(self, value: object) -> object:
        """Leave a function of the script, which returns `value`."""
        self.depth -= 1
        return value
