"""Money in whole numbers: credits of an owner, prices for a unit and an hour, and what is paid back.

A *part* is 1/3,600,000 credit. A price has at most three decimals, so a unit costs a whole number of parts
in each second, and no interval is ever rounded. Credits of one owner are nothing at another: never add them
up.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput

CREDIT: Final = 3_600_000
"""Parts of a credit."""

COST_MAX: Final = 1 << 53
"""The most parts of one claim: more are not exact in JSON readers of other languages."""

NO_CAP: Final = -1
"""A budget without a limit, where parts are expected."""

RATE_MAX: Final = 10_000 * 1_000
"""The highest price, 10,000 credits for a unit and an hour, in parts for a unit and a second."""

PIECES_MAX: Final = 512
"""Pieces of one claim, each with a price of its own: a year of nights needs more, and is refused."""

Parts = Annotated[int, Meta(ge=0, le=COST_MAX)]
Rate = Annotated[int, Meta(ge=0, le=RATE_MAX)]

_DECIMAL = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,3}))?")


class Piece(NamedTuple):
    """`unit_s` seconds of units at `rate`: parts for a unit and a second, 1/1,000 credit for an hour."""

    unit_s: int
    rate: int


Pieces = tuple[Piece, ...]
"""All time of one claim, in order and without gaps: free time has pieces of the rate 0."""


def cost_of(pieces: Iterable[Piece]) -> int:
    """Return the exact sum of `pieces`, in parts."""
    return sum(unit_s * rate for unit_s, rate in pieces)


def between(pieces: Sequence[Piece], units: int, begins: int, start: int, end: int) -> Pieces:
    """Return what of `pieces`, of a claim of `units` from `begins` on, lies in ``[start, end)``."""
    found = []
    for first, last, rate in _timed(pieces, units, begins):
        length_s = min(last, end) - max(first, start)
        if length_s > 0:
            found.append(Piece(length_s * units, rate))
    return tuple(found)


def cost_by(steps: Sequence[tuple[int, int, int]], units: int, start: int, end: int) -> int:
    """Return the parts of `units` during ``[start, end)`` by ``(start, end, rate)`` without gaps."""
    total = 0
    place = bisect_right(steps, start, key=lambda step: step[0]) - 1
    for begins, ends, rate in islice(steps, max(place, 0), None):
        if begins >= end:
            break
        total += (min(ends, end) - max(begins, start)) * rate
    return total * units


@dataclass(frozen=True, slots=True)
class CancelRule:
    """The price of a cancel: nothing until `free_until_s` before the start, then `fee` percent of the price.

    Of what has begun, `unused` percent of the price of the time not yet used are paid back. Raises
    `InvalidInput` for anything else.
    """

    free_until_s: int = 0
    fee: int = 0
    unused: int = 0

    def __post_init__(self) -> None:
        for where, value in (("fee", self.fee), ("unused", self.unused)):
            if type(value) is not int or not 0 <= value <= 100:
                raise InvalidInput(
                    f"{value!r} is not a percentage", where=where, remedy="give a whole 0 to 100"
                )

    def refund(self, pieces: Sequence[Piece], units: int, begins: int, start: int, at: int) -> int:
        """Return the parts paid back for `pieces` of `units` from `start` on, given up at `at` (seconds UTC).

        `begins` is when the whole claim begins, of which they may be a part. The fee is rounded down, and the
        refund is the rest.
        """
        if at <= begins - self.free_until_s:
            return cost_of(pieces)
        if at < begins:
            cost = cost_of(pieces)
            return cost - cost * self.fee // 100
        end = start + sum(unit_s for unit_s, _ in pieces) // units
        rest = cost_of(between(pieces, units, start, max(start, at), end))
        return rest - rest * (100 - self.unused) // 100

    def describe(self) -> str:
        """Describe in words: ``a cancel costs 50 % from 1d before the start on; ...``."""
        since = f" from {format_duration(self.free_until_s)} before the start on"
        fee = f"a cancel costs {self.fee} %{since}; " if self.fee and self.free_until_s else ""
        return f"{fee}of a slot that has begun, {self.unused} % of the unused time is paid back"


def parse_credits(text: str, where: str, *, most: int = COST_MAX // CREDIT) -> int:
    """Return ``2.5`` credits in parts.

    Raises `InvalidInput` at `where` for a negative number, one above `most`, and more than three decimals.
    """
    found = _DECIMAL.fullmatch(text.strip())
    if found is None:
        why = "is negative" if text.strip().startswith("-") else "is not a number of credits"
        raise InvalidInput(
            f"{text!r} {why}",
            where=where,
            remedy="write 0 or more, with at most three decimals: 40 or 2.5",
        )
    whole, decimals = found.groups()
    thousandths = int(whole) * 1_000 + int((decimals or "").ljust(3, "0"))
    if thousandths > most * 1_000:
        raise InvalidInput(f"{text} is too much", where=where, remedy=f"give at most {most:,}")
    return thousandths * (CREDIT // 1_000)


def rate_of(text: str, where: str) -> int:
    """Return the rate of a price ``2.5`` for a unit and an hour; raises as `parse_credits`."""
    return parse_credits(text, where, most=RATE_MAX // 1_000) // 3_600


def parse_budget(text: str, where: str = "at_most") -> dict[str, int]:
    """Return the parts that ``sdsc=40,caltech=10`` allows at each site; ``40`` is for the only one, "".

    Raises `InvalidInput` at `where` for anything else.
    """
    return {site: parse_credits(amount, where) for site, amount in _by_site(text, where)}


def parse_rates(text: str, where: str = "rates") -> dict[str, int]:
    """Return the worth of a credit of each owner, in thousandths: ``sdsc=1``; raises as `parse_budget`."""
    return {site: rate_of(amount, where) for site, amount in _by_site(text, where)}


def format_credits(parts: int) -> str:
    """Show with two decimals, halves up: ``2.50``."""
    hundredths = (parts + CREDIT // 200) // (CREDIT // 100)
    sign = "-" if hundredths < 0 else ""
    return f"{sign}{abs(hundredths) // 100}.{abs(hundredths) % 100:02}"


def format_rate(rate: int) -> str:
    """Show a price for a unit and an hour, exactly: ``2.5``."""
    whole, rest = divmod(rate, 1_000)
    return f"{whole}.{rest:03}".rstrip("0").rstrip(".")


def _by_site(text: str, where: str) -> Iterator[tuple[str, str]]:
    told = set()
    for each in text.split(","):
        site, given, amount = each.rpartition("=")
        site = site.strip()
        if site in told or (given and not site):
            raise InvalidInput(
                f"{text!r} names {'no site' if not site else f'{site} twice'}",
                where=where,
                remedy="write one amount for each site: sdsc=40,caltech=10",
            )
        told.add(site)
        yield site, amount


def _timed(pieces: Iterable[Piece], units: int, begins: int) -> Iterator[tuple[int, int, int]]:
    """Yield ``(start, end, rate)`` of each piece."""
    for unit_s, rate in pieces:
        end = begins + unit_s // units
        yield begins, end, rate
        begins = end
