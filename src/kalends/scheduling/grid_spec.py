"""Grids as text: ``grid:32+32+32+32``, ``grid:64@1.0+32@0.5``, ``grid:48@1,16@0.5+32``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from kalends.core.errors import InvalidInput
from kalends.core.excerpts import excerpt
from kalends.scheduling.grid import Grid
from kalends.scheduling.placement import ClusterSpec, CrossingPenalty, GridPart
from kalends.scheduling.reservations import Reservation

MOST_CLUSTERS: Final = 1000
MOST_NODES: Final = 10**9
_SHOWN: Final = "write grid:NODES+NODES, each as NODES@SPEED if necessary, e.g. grid:64@1.0+32@0.5"
_PART: Final = re.compile(r"([0-9]{1,10})(?:@([0-9]{1,6}(?:\.[0-9]{1,9})?))?")
_SHARE: Final = re.compile(r"(once|each):([0-9]{1,6}(?:\.[0-9]{1,9})?)")


def grid_from(
    text: str,
    *,
    crossing: str = "",
    fit: str = "worst",
    undivided: str = "total",
    reservations: Mapping[int, Iterable[Reservation]] | None = None,
) -> Grid:
    """Return the empty grid that `text` names.

    Clusters are joined by ``+``; the nodes of different speeds in one cluster by ``,``. `ferry` is
    ``once:SHARE``, ``each:SHARE`` or both joined by ``,`` (see `CrossingPenalty`); empty for no penalty. The
    rest is passed to `Grid`. Raises `InvalidInput` that shows the unreadable part.
    """
    kind, colon, rest = text.partition(":")
    if kind != "grid" or not colon:
        raise InvalidInput(f"{excerpt(text)!r} is not a grid", where="grid", remedy=_SHOWN)
    written = rest.split("+")
    if len(written) > MOST_CLUSTERS:
        raise InvalidInput(
            f"{len(written)} clusters", where="grid", remedy=f"give {MOST_CLUSTERS} or fewer"
        )
    clusters = [
        ClusterSpec(tuple(_part(each) for each in cluster.split(","))) for cluster in written
    ]
    return Grid(
        clusters, reservations, crossing=crossing_from(crossing), fit=fit, undivided=undivided
    )


def crossing_from(text: str) -> CrossingPenalty:
    """Return the crossing penalty that `text` names: ``once:0.2``, ``each:0.05``, ``once:0.2,each:0.05``."""
    shares: dict[str, float] = {}
    for written in text.split(",") if text else ():
        found = _SHARE.fullmatch(written)
        if found is None or found[1] in shares:
            raise InvalidInput(
                f"{excerpt(written)!r} is not a crossing penalty",
                where="crossing",
                remedy="write once:SHARE, each:SHARE or both with a comma, such as once:0.2,each:0.05",
            )
        shares[found[1]] = float(found[2])
    return CrossingPenalty(**shares)


def _part(text: str) -> GridPart:
    found = _PART.fullmatch(text)
    if found is None or int(found[1]) > MOST_NODES:
        raise InvalidInput(
            f"{excerpt(text)!r} is not a number of nodes", where="grid", remedy=_SHOWN
        )
    return GridPart(int(found[1]), float(found[2] or 1))
