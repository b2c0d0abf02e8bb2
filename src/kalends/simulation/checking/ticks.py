"""Times of a log as whole numbers, in the unit that its decimals need."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

import msgspec

DECIMALS_MAX: Final = 6
"""Microseconds; finer decimals are rounded to them."""

_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


class Ticks(msgspec.Struct, frozen=True):
    """A unit of time. Schedules are compared in whole numbers of it, so that no sum depends on rounding."""

    per_second: int = 1

    def sum_of(self, *words: str) -> int | None:
        """Return the sum of some numbers of seconds, rounded once; None if one of them is not a number."""
        if not all(map(_NUMBER.fullmatch, words)):
            return None
        if not any("." in word for word in words):
            return sum(map(int, words)) * self.per_second
        total = sum(map(Decimal, words), Decimal()) * self.per_second
        return int(total.to_integral_value(ROUND_HALF_UP))

    def seconds(self, ticks: int) -> float:
        """Return `ticks` in seconds, a whole number if they are."""
        whole, rest = divmod(ticks, self.per_second)
        return ticks / self.per_second if rest else whole


SECONDS: Final = Ticks()


def decimals_in(words: Iterable[str]) -> int:
    """Return the most decimals that one of `words` needs, up to `DECIMALS_MAX`."""
    needed = (len(word.partition(".")[2].rstrip("0")) for word in words)
    return min(max(needed, default=0), DECIMALS_MAX)
