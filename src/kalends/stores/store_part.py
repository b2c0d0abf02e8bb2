"""Tables of a wing inside the store of its kernel, so that their facts share one transaction.

The kernel of a store knows none of its parts: it carries out what they handle, in the order of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

Connection = TypeVar("Connection")


class StorePart(NamedTuple, Generic[Connection]):
    """Tables, and for each type of operation about them what carries it out, in the caller's transaction."""

    schema: str
    handles: Mapping[type, Callable[[Connection, Any], None]]


def handlers_of(
    parts: Iterable[StorePart[Connection]],
) -> dict[type, Callable[[Connection, Any], None]]:
    """Return who carries out what; each type of operations belongs to one part."""
    found: dict[type, Callable[[Connection, Any], None]] = {}
    for part in parts:
        assert found.keys().isdisjoint(part.handles), part.handles
        found |= part.handles
    return found
