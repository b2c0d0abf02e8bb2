"""Nodes of a machine, as an operator names them."""

from __future__ import annotations

from collections.abc import Collection

from kalends.core.errors import InvalidInput


def checked_nodes(named: Collection[int], count: int) -> tuple[int, ...]:
    """Return the nodes that are `named`, of a machine of `count`; raises `InvalidInput` for others."""
    numbers = tuple(sorted(set(named)))
    if not numbers or numbers[0] < 0 or numbers[-1] >= count:
        raise InvalidInput(
            "no such nodes" if numbers else "no nodes are named",
            where="nodes",
            remedy=f"nodes are 0 to {count - 1}",
        )
    return numbers
