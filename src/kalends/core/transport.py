"""Transport between sites: a job's input and its messages, the rates of links, and the time that it takes.

"For jobs that are scheduled in a site that does not have direct access to needed data, the data must be
transported to the job's location." (Weissman and Grimshaw 1996, section 2.) That time is part of the end by
which bids are compared; nothing is moved here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from kalends.core import identifiers as ids
from kalends.core import limits
from kalends.core.errors import InvalidInput

TRAFFIC_MB_PER_S_MAX: Final = 10**9

Traffic = Annotated[float, Meta(ge=0, le=TRAFFIC_MB_PER_S_MAX)]
"""Megabytes (10^6 bytes) a second."""

SIZE_MB_MAX: Final = 10**12
"""An exabyte: more is a mistake."""

UNITS_MB: Final[Mapping[str, float]] = {"MB": 1, "GB": 1_000, "TB": 1_000_000}


class JobData(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Input of a job that lies at `site`: `size_mb` megabytes (10^6 bytes)."""

    site: Annotated[str, Meta(pattern=ids.whole(ids.NAME_PATTERN))]
    size_mb: Annotated[float, Meta(ge=0, le=SIZE_MB_MAX)]


class Rates:
    """Megabytes a second between two sites: by known links, else `other`; 0: not counted."""

    def __init__(
        self, links: Iterable[tuple[Iterable[str], float]] = (), other: float = 0.0
    ) -> None:
        self._of_pair = {frozenset(sites): rate for sites, rate in links}
        self._other = other

    def mb_per_s(self, one: str, other: str) -> float:
        """Return the rate between two sites."""
        return self._of_pair.get(frozenset((one, other)), self._other)

    def transport_s(self, data: Iterable[JobData], site: str) -> float:
        """Return in how many seconds all of `data` is at `site`, one after the other."""
        total_s = 0.0
        for each in data:
            rate = self.mb_per_s(each.site, site)
            if each.site != site and rate:
                total_s += each.size_mb / rate
        return min(total_s, limits.DURATION_S_MAX)


def data_named(text: str, where: str = "data") -> JobData:
    """Read ``sdsc:20GB``. Raises `InvalidInput`."""
    site, _, size = text.partition(":") if isinstance(text, str) else ("", "", "")
    try:
        return msgspec.convert({"site": site.strip(), "size_mb": _megabytes(size)}, JobData)
    except (KeyError, ValueError):
        raise InvalidInput(
            f"{text!r} names no site with an amount",
            where=where,
            remedy=f"write e.g. sdsc:20GB; units are {', '.join(UNITS_MB)}",
        ) from None


def traffic_in(text: str, where: str = "traffic") -> float:
    """Read ``20MB``, the traffic of a node in a second, and return it in megabytes. Raises `InvalidInput`."""
    try:
        traffic = _megabytes(text) if isinstance(text, str) else math.nan
    except (KeyError, ValueError):
        traffic = math.nan
    if not 0 < traffic <= TRAFFIC_MB_PER_S_MAX:
        raise InvalidInput(
            f"{text!r} is not an amount in a second",
            where=where,
            remedy=f"write e.g. 20MB; units are {', '.join(UNITS_MB)}",
        )
    return traffic


def _megabytes(size: str) -> float:
    return float(size.strip()[:-2]) * UNITS_MB[size.strip()[-2:].upper()]
