"""How long a job ran by the steady clock of its shepherd, against what the clock of its site says.

The clock of a site may be wrong when it starts, be set, or stand still; and a site that was away learns
late that a job is over. A steady clock knows nothing of all that.
"""

from __future__ import annotations

from typing import Final

LATE_S: Final = 60
"""A program may begin so long after its job has got nodes, and its end be heard of so late."""

FOLLOWED_S: Final = 10
"""A clock that is set by less is followed."""


def clocks_agree(held_s: int, ran_s: float) -> bool:
    """Return whether a job that ran for `ran_s` may have had its nodes for `held_s`."""
    if not held_s:
        return ran_s < 1
    return ran_s - FOLLOWED_S <= held_s <= ran_s + max(LATE_S, ran_s / 10)
