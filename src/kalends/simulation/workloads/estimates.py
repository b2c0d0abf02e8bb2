"""Requested times for jobs whose run times a generator knows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from random import Random
from typing import Final

from kalends.core.errors import InvalidInput
from kalends.core.excerpts import excerpt
from kalends.simulation.workloads.distributions import call

Requested = Callable[[int, Random], int]

_MINUTE_S: Final = 60
_HOUR_S: Final = 3_600
ROUND_S: Final = (
    *(minutes * _MINUTE_S for minutes in (1, 2, 5, 10, 15, 20, 30, 45)),
    *(hours * _HOUR_S for hours in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 24, 36, 48, 60, 72)),
)
"""Values that people choose: nearly all jobs of real logs request one of some twenty such times."""


def requested_times(text: str) -> Requested:
    """Return the rule from run times to requested times: ``exact``, ``f(K)`` or ``round(K)``.

    ``f(K)`` is the f-model of Mu'alem and Feitelson (IEEE TPDS 2001, section 4): equally likely from the
    run time to K + 1 times it. ``round(K)`` rounds that up to a value that people choose, as Tsafrir,
    Etsion and Feitelson found in logs (JSSPP 2005). Raises `InvalidInput` for anything else.
    """
    name, numbers = call(text, "estimates")
    if name == "exact" and not numbers:
        return lambda run_s, random: run_s
    if name in ("f", "round") and len(numbers) == 1 and numbers[0] <= 1_000_000:
        factor = numbers[0]
        if name == "f":
            return lambda run_s, random: _stretched(run_s, factor, random)
        return lambda run_s, random: _rounded(_stretched(run_s, factor, random))
    raise InvalidInput(
        f"{excerpt(text)!r} is not a model of estimates",
        where="estimates",
        remedy="write exact, f(K) or round(K), with K up to 1000000",
    )


def _stretched(run_s: int, factor: float, random: Random) -> int:
    return int(run_s * (1.0 + factor * random.random()))


def _rounded(time_s: int) -> int:
    at = bisect_left(ROUND_S, time_s)
    if at < len(ROUND_S):
        return ROUND_S[at]
    day_s = 24 * _HOUR_S
    return -(-time_s // day_s) * day_s
