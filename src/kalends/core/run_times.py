"""Comparison of a job's run time by the steady clock of its shepherd and by the clock of its site.

The clock of a site may be wrong at its start, or be set, or stop; and a site that was down learns late that a
job has ended. None of this affects a steady clock.
"""

from __future__ import annotations

from typing import Final

LATE_S: Final = 60
"""Tolerance for a late begin of a program after its job got nodes, and a late report of its end."""

FOLLOWED_S: Final = 10
"""Tolerance for a clock that was set by a little."""


def clocks_agree(held_s: int, ran_s: float) -> bool:
    """Return whether a run of `ran_s` seconds can agree with nodes held for `held_s` seconds."""
    if not held_s:
        return ran_s < 1
    return ran_s - FOLLOWED_S <= held_s <= ran_s + max(LATE_S, ran_s / 10)
