"""The budget of one search in steps: the same input always ends in the same way.

A broker serves everybody on one event loop. No request, however it is made, may keep it for long.
"""

from __future__ import annotations

from typing import Final

from kalends.core.errors import InvalidInput

STEPS_MAX: Final = 6_000_000
"""About a tenth of a microsecond each; twenty alternatives over a thousand resources need fewer."""


class TooMuchWork(InvalidInput):
    """A search over its budget, without a result."""


class Work:
    """The remaining steps of one search."""

    def __init__(self, steps: int = STEPS_MAX) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Spend `steps`; raise `TooMuchWork` when none are left."""
        self.left -= steps
        if self.left < 0:
            raise TooMuchWork(
                "too many combinations to search",
                where="request",
                remedy="give fewer alternatives, terms or preferences, or a shorter window",
            )
