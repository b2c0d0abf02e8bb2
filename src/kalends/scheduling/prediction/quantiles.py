"""Quantiles of partly known values, and the level at which the stated share holds."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

LEVEL_MIN: Final = 0.001
LEVEL_MAX: Final = 0.999


def censored_quantile(known: Sequence[float], at_least: Sequence[float], level: float) -> float:
    """Return the `level` quantile of values of which some are `known`, and others known to exceed `at_least`.

    Both ascending. The product limit of Kaplan and Meier 1958: an open value counts among those at risk up to
    the value that it has reached. Infinite if the known values do not reach the level.
    """
    at_risk = len(known) + len(at_least)
    surviving, opened = 1.0, 0
    for passed, value in enumerate(known):
        while opened < len(at_least) and at_least[opened] < value:
            opened += 1
        surviving *= 1 - 1 / (at_risk - passed - opened)
        if 1 - surviving >= level - 1e-12:
            return value
    return inf


class AdaptiveLevel:
    """The level at which to read a distribution, so that `share` of the outcomes stay within.

    Adaptive conformal inference (Gibbs and Candes 2021): every outcome beyond the bound raises the
    level, every one within lowers it, in the ratio that balances at `share`. Whatever the outcomes are,
    the share that was within then differs from `share` by at most about 1 / (gain x outcomes), as long as a
    bound can be far enough away at all. `gain` is the step for one outcome.
    """

    __slots__ = ("gain", "level", "share")

    def __init__(self, share: float, gain: float) -> None:
        self.share = share
        self.gain = gain
        self.level = share

    def learn(self, within: bool) -> None:
        """Learn from a known outcome."""
        level = self.level + self.gain * (self.share - within)
        self.level = min(max(level, LEVEL_MIN), LEVEL_MAX)
