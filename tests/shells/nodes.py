"""One start of one simulated process: what is its own, and what is left of it when it was killed."""

from __future__ import annotations

import asyncio
import contextvars
import sqlite3
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from tests.shells.stage import NODE

if TYPE_CHECKING:
    from tests.shells.network import Transport
    from tests.shells.world import World


class Node:
    """A process called `name`, on a host at `address`; `host` names the host, and its disk.

    `dead`: nothing of it runs any more, not even a `finally`. `dark`: its host is gone too, so that
    nobody is told. `paused`: whatever would run is kept back. `clock_error_s` is how far its wall
    clock is ahead of true time; it may be set to anything at any time.
    """

    def __init__(self, world: World, name: str, address: str, host: str) -> None:
        self.world = world
        self.name = name
        self.address = address
        self.host = host
        self.dead = self.dark = self.paused = False
        self.clock_error_s = 0.0
        self.transports: list[Transport] = []
        self.listens_at: set[tuple[str, int]] = set()
        self.descriptors: set[int] = set()
        self.connections: list[sqlite3.Connection] = []
        self.held: list[asyncio.Handle] = []
        """What is to run once it goes on after a pause."""
        self.grave: list[object] = []
        """What the dead have left is kept: were it collected, its `finally` clauses would run."""
        self.tasks: set[asyncio.Future[Any]] = set()
        self.context = contextvars.copy_context()
        self.context.run(NODE.set, self)

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task of this process."""
        return self.context.copy().run(self.world.loop.create_task, work)
