"""The arguments of a fleet search, normalised or refused with `InvalidInput`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kalends.calendars.bookings import check_units
from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval

Weight = Callable[[NDArray[np.int64]], NDArray[Any]]
"""The weight of each of an array of starts; higher is better."""


def starts_between(length_s: int, not_before: int, not_after: int, grain_s: int) -> tuple[int, int]:
    """Return the first and the last second at which a slot could begin; raises `InvalidInput`."""
    check_whole(1, length_s=length_s, grain_s=grain_s)
    check_whole(None, not_before=not_before, not_after=not_after)
    if grain_s > limits.TIME_S_MAX:
        raise InvalidInput(
            f"a grain of {grain_s} s", where="grain_s", remedy="give a grain below all of time"
        )
    return max(not_before, 0), min(not_after, limits.TIME_S_MAX) - length_s


def check_whole(least: int | None, **numbers: int) -> None:
    """Refuse what is not a whole number (of at least `least`), named by its keyword."""
    for where, number in numbers.items():
        if type(number) is not int or (least is not None and number < least):
            atleast = "" if least is None else f" of at least {least}"
            raise InvalidInput(
                f"{number!r} is not a whole number{atleast}",
                where=where,
                remedy=f"give a whole number{atleast}",
            )


def listed(names: Collection[str]) -> Collection[str]:
    """Return `names` as a list; they must be a collection of texts."""
    whole = not isinstance(names, str) and isinstance(names, Collection)
    if not whole or not all(type(name) is str for name in names):
        raise InvalidInput(
            f"{names!r} is not a list of names", where="names", remedy="give a list of names"
        )
    return names


def windows_of(
    windows: Mapping[str, Sequence[Interval]] | None, names: Collection[str]
) -> Mapping[str, Sequence[Interval]]:
    """Return `windows`, all of which must belong to `names`."""
    if windows is None:
        return {}
    if not isinstance(windows, Mapping) or not windows.keys() <= set(names):
        raise InvalidInput(
            "windows for calendars that are not searched",
            where="windows",
            remedy="give them by name",
        )
    return windows


def units_of(units: int | Mapping[str, int], name: str) -> int:
    """Return the units that are wanted of `name`."""
    if isinstance(units, Mapping):
        if name not in units:
            raise InvalidInput(f"no units for {name}", where="units", remedy="give them by name")
        units = units[name]
    check_units(units)
    return units


def weigh(weight: Weight, times: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the weight of each of `times`, none of them NaN."""
    shape = times.shape
    try:
        # Of a copy: what foreign code writes into must not be what is answered.
        answer: Any = weight(times.copy())
        weights = np.asarray(answer, np.float64)
    except Exception as error:  # whatever foreign code raises, the caller gets a typed error
        raise InvalidInput(
            f"computing the weights failed: {type(error).__name__}: {error}",
            where="weight",
            remedy="return an array of numbers for an array of starts",
        ) from error
    if weights.shape != shape or np.isnan(weights).any():
        raise InvalidInput(
            f"weights of shape {weights.shape} for {shape[0]} starts, or not numbers",
            where="weight",
            remedy="return one number for each start, none of them NaN",
        )
    return weights
