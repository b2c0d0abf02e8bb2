"""What plays at present: the world of this process, and the node whose code is running.

A context variable names the node. asyncio hands it on to every task, timer and callback, and threads
take it along, so that whatever happens is known to happen in one of the simulated processes.
"""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.shells.nodes import Node
    from tests.shells.world import World

NODE: contextvars.ContextVar[Node | None] = contextvars.ContextVar("node", default=None)
NOBODY = contextvars.Context()
"""The context of what the world itself does, whoever has asked for it."""

_worlds: list[World] = []


def world() -> World:
    """The world that plays; there must be one."""
    return _worlds[-1]


def playing() -> bool:
    return bool(_worlds)


def enter(new: World) -> None:
    """`new` plays from now on. One process plays one world: nothing is left over from another."""
    assert not _worlds, "a world of its own needs a process of its own"
    _worlds.append(new)
