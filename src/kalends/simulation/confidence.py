"""The precision of a mean of few independent values: Student's t."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import cos, inf, pi, sin, sqrt
from statistics import fmean, stdev

import msgspec

from kalends.core.errors import InvalidInput


class Estimate(msgspec.Struct, frozen=True):
    """A mean, and how far to both sides of it its confidence interval goes.

    `half_width` is None for a single value.
    """

    mean: float
    half_width: float | None


def estimate(values: Sequence[float], level: float = 0.95) -> Estimate:
    """Return the mean of independent `values`, one or more, with its interval of confidence `level`."""
    mean = fmean(values)
    if len(values) < 2:
        return Estimate(mean, None)
    half_width = students_t(level, len(values) - 1) * stdev(values, mean) / sqrt(len(values))
    return Estimate(mean, half_width)


@cache
def students_t(level: float, freedom: int) -> float:
    """Return the two-sided t of Student's distribution for the probability `level`.

    Exact to 12 digits for any whole number of degrees of `freedom`, 1 or more; `level` is below 1.
    """
    if not 0 < level < 1 or freedom < 1:
        raise InvalidInput(
            f"level {level}, {freedom} degrees of freedom",
            where="confidence",
            remedy="give a level between 0 and 1, and 1 degree or more",
        )
    low, high = 0.0, pi / 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _within(middle, freedom) < level else (low, middle)
    return sqrt(freedom) * sin(low) / cos(low) if cos(low) > 0 else inf


def _within(angle: float, freedom: int) -> float:
    """Return the probability of ``|t| <= sqrt(freedom) tan(angle)`` (Abramowitz and Stegun 1964, 26.7.3)."""
    odd = freedom % 2
    sine, cosine = sin(angle), cos(angle)
    term = sine * cosine if odd else sine
    total = 0.0
    for power in range(2 + odd, freedom + 1, 2):
        total += term
        term *= cosine * cosine * (power - 1) / power
    return 2 / pi * (angle + total) if odd else total
