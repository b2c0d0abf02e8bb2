"""The mark of a move in both its stores, so that a server can be begun on one of them at most.

A target is closed while it is filled, and until its source is closed. Then the target is opened. Wherever a
move is interrupted, servers begin on the source, or on neither store. The same move, run again, ends it.
"""

from __future__ import annotations

from shlex import quote
from typing import Final, NamedTuple

from kalends.core.errors import StoreDamaged

MOVE: Final = "kalends admin move-store"


class MoveMark(NamedTuple):
    """The name of the `move` that has closed a store, and where that has brought it.

    Without `moved_to`, the store is the target of a move that has not ended.
    """

    move: str = ""
    moved_to: str = ""


OPEN: Final = MoveMark()


def closed(where: str, closure: MoveMark) -> StoreDamaged:
    if closure.moved_to:
        return StoreDamaged(
            f"the store was moved to {closure.moved_to}; promises that were made since then are only there",
            where=where,
            remedy="name that one as `store`; to come back, run:"
            f" {MOVE} {quote(closure.moved_to)} {quote(where)}",
        )
    return StoreDamaged(
        "the store is the target of an interrupted move",
        where=where,
        remedy=f"run the same move again ({MOVE} SOURCE {quote(where)}), or name its source as `store`",
    )
