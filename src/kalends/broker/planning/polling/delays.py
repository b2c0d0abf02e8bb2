"""Distributions of the time a site takes to answer, and cells of time to sum them over.

A sum over `cells` is the midpoint rule: exact for `Discrete` delays, whose steps are edges of cells, and
of second order for `Lognormal` ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SPREAD: Final = 5.0
"""Standard deviations of the logarithm that are looked at: of answers, one in three million is outside."""


class Lognormal(NamedTuple):
    """A lognormal delay: `median_ms`, and `sigma`, the deviation of its logarithm."""

    median_ms: float
    sigma: float

    def reached(self, ms: float) -> float:
        """Return the probability that the answer is there after `ms`."""
        if ms <= 0:
            return 0.0
        return 0.5 * (1 + math.erf(math.log(ms / self.median_ms) / (self.sigma * math.sqrt(2))))

    @property
    def edges(self) -> tuple[float, ...]:
        reach = math.exp(SPREAD * self.sigma)
        return self.median_ms / reach, self.median_ms * reach


class Discrete(NamedTuple):
    """A discrete delay: ``(ms, probability)`` in order of time, adding up to one."""

    atoms: tuple[tuple[float, float], ...]

    def reached(self, ms: float) -> float:
        return math.fsum(chance for at_ms, chance in self.atoms if at_ms <= ms)

    @property
    def edges(self) -> tuple[float, ...]:
        return tuple(at_ms for at_ms, _ in self.atoms)


Delay = Lognormal | Discrete


class Cells(NamedTuple):
    """Neighbouring stretches of time from zero: their middles, and their widths."""

    middles_ms: Floats
    widths_ms: Floats


def cells(delays: Iterable[Delay], count: int) -> Cells:
    """Return about `count` cells until all have answered, narrower where answers come early."""
    distinct = set(delays)
    smooth = [edge for delay in distinct if isinstance(delay, Lognormal) for edge in delay.edges]
    steps = [edge for delay in distinct if isinstance(delay, Discrete) for edge in delay.edges]
    spaced = np.geomspace(min(smooth), max(smooth), count) if smooth else np.empty(0)
    edges = np.unique(np.concatenate(([0.0], spaced, steps)))
    return Cells((edges[1:] + edges[:-1]) / 2, np.diff(edges))
