"""Steps: how the work of a script is counted, and how it ends when there are none left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from kalends.agents.language import limits

_SECRET: Final = hash("keys")
"""Differs from process to process, as the hashes of all texts."""


class Meter:
    """Counts steps down, and calls of the script's functions inside one another.

    `exhausted` is called when no step is left. It must not return: it ends the process, or raises
    what no guard catches. Scripts have no `try`.
    """

    __slots__ = ("_alike", "_exhausted", "_keys_max", "_steps_max", "depth", "left")

    def __init__(self, steps_max: int, exhausted: Callable[[], NoReturn]) -> None:
        self._steps_max = self.left = steps_max
        self._exhausted = exhausted
        self.depth = 0
        self._keys_max = 0
        self._alike: dict[int, list[tuple[Any, ...]]] = {}

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

    def charge_keys(self, number: int = 1) -> None:
        """Pay for a search for this number of keys with predictable hashes, in any dict of the script.

        Such keys can be chosen so that a dict passes over all others to find one, also over those taken out.
        """
        size = self._keys_max
        nearby = size >> limits.KEYS_PER_STEP_BITS
        self.charge(number * nearby * (1 + (size >> limits.CACHED_KEYS_BITS)))

    def note_key(self, key: Any, size: int) -> None:
        """`key`, whose hash is predictable, enters a dict of `size`.

        Raises `OverflowError` for a tuple if too many others have its hash: they are all compared with it.
        """
        self._keys_max = max(self._keys_max, size + 1)
        if type(key) is not tuple:
            return
        alike = self._alike.setdefault(hash(key) ^ _SECRET, [])
        self.charge(len(alike))
        if key not in alike:
            if len(alike) == limits.KEYS_ALIKE_MAX:
                raise OverflowError(f"more than {limits.KEYS_ALIKE_MAX} keys with one hash")
            alike.append(key)

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
