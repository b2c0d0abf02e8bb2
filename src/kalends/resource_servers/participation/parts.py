"""The socket of a site's machine: what it calls of one of its parts, and in which order.

A part is no class with a base: its `plug` says what is called of it, and leaves out the rest. The machine
reads all plugs once, when it is made, and then calls what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, TypeVar

from kalends.contract import messages as m
from kalends.core.errors import Refusal
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.consequences import Consequences

M = TypeVar("M", bound=m.Message)


class Tier(IntEnum):
    """The order of parts when time passes, or a broker comes; in one tier it is that of the list."""

    ENDS = 0
    """What ends by itself: its room is free for all that follow."""
    WAITS = 1
    """Requests that wait for room, or for a queue."""
    ASKS = 2
    """Questions and reports to others, about what is true after the first two."""
    RECORDS = 3
    """Records of slots that have begun, or are over."""
    CARRIES = 4
    """Requests to batch systems, for all that has changed."""


class Timed(Protocol):
    """A part that acts as time passes."""

    def advance(self, now: Moment) -> None: ...

    def next_deadline_ms(self) -> int | None:
        """Return when `advance` has something to do next (monotonic)."""


class Taken(NamedTuple):
    """A message that a part takes; see `on`."""

    kind: type[m.Message]
    take: Callable[[str, Any, Moment], None]
    owned: bool
    refuse: Callable[[str, Any, tuple[Refusal, ...]], None] | None


def on(
    kind: type[M], take: Callable[[str, M, Moment], None], *, owned: bool = True,
    refuse: Callable[[str, M, tuple[Refusal, ...]], None] | None = None,
) -> Taken:  # fmt: skip
    """Declare which method takes messages of `kind`, from a source, now.

    A message is `owned` by the register of its request, unless the opposite is said: no other register is
    heard. A message that asks for something on behalf of a user has a `refuse`, which answers it where its
    register may not speak for that user.
    """
    return Taken(kind, take, owned, refuse)


class Plug(NamedTuple):
    """The methods that the machine calls of one part; None is not called."""

    tier: Tier
    handles: Sequence[Taken] = ()
    timed: Timed | None = None
    listen: Callable[[Consequences], None] | None = None
    """Called once: adds the part's listeners behind those that are there."""
    settle: Callable[[Moment], None] | None = None
    """Called after each step, before what came free finds takers."""
    met: Callable[[str], None] | None = None
    """Called with the register of a broker that has been answered."""
    broker_came: Callable[[Moment], None] | None = None
    """Called when a broker may have missed what was sent."""
    att_of: Callable[[str], int] | None = None
    """Return the attempt of a request that is here, and claims nothing yet; 0 for others."""
    secret_of: Callable[[str], str | None] | None = None
    """Return the secret of such a request; None for others."""


def in_order(parts: Iterable[Plug]) -> tuple[Plug, ...]:
    """Return `parts` by tier; those of one tier stay as they were."""
    return tuple(sorted(parts, key=lambda part: part.tier))


def takers(parts: Iterable[Plug]) -> dict[type[m.Message], Taken]:
    """Return what takes each type of message; raises `ValueError` for a type that two parts take."""
    found: dict[type[m.Message], Taken] = {}
    for part in parts:
        for taken in part.handles:
            if found.setdefault(taken.kind, taken) is not taken:
                raise ValueError(f"two parts take {taken.kind.__name__}")
    return found
