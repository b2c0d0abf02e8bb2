"""Ids of a series and its requests: they differ in their last four digits, which are 0 for the series."""

from __future__ import annotations

from typing import Final

from kalends.core.errors import LimitExceeded

_DIGITS: Final = 4
NUMBER_MAX: Final = 16**_DIGITS - 1


def series_of(rid: str) -> str:
    """Return the id of the series that `rid` could be a request of."""
    return rid[:-_DIGITS] + "0" * _DIGITS


def member(series: str, number: int) -> str:
    """Return the id of request `number` of `series`, counted from 1. Raises `LimitExceeded`."""
    if number > NUMBER_MAX:
        raise LimitExceeded(
            "occurrences of this series were tried too often", remedy="book them as another series"
        )
    return f"{series[:-_DIGITS]}{number:0{_DIGITS}x}"


def number_of(rid: str) -> int:
    """Return the opposite of `member`."""
    return int(rid[-_DIGITS:], 16)
