"""Servers that take one message at a time, disks that sync in groups, and lines with a delay.

What is modelled is the same for every scheme: `Costs`. Clients compute in no time; a message that gets
to a server waits until the server has dealt with those before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from benchmarks.contenders.virtual_time import Timeline

Leg = Literal["client", "site", "back"]
"""Between which ends a message passes, for the counts: client and its server, or server (in schemes
without one: client) and site; "back" is all that serves to give a booking back."""


class Costs(NamedTuple):
    """`one_way_ms` of every line; `service_us` of a server for each message; `sync_us` of a disk."""

    one_way_ms: float = 25.0
    service_us: int = 50
    sync_us: int = 1_000


class Network:
    """Every line has the same delay and keeps the order; nothing is lost."""

    def __init__(self, timeline: Timeline, costs: Costs) -> None:
        self.timeline = timeline
        self.costs = costs
        self.sent: Counter[tuple[Leg, str]] = Counter()
        self._delay_us = round(costs.one_way_ms * 1_000)

    def to_server(
        self, leg: Leg, kind: str, server: Server, action: Callable[..., None], *arguments: Any
    ) -> None:
        """Let `server` do ``action(*arguments)`` when the message is there and its turn has come."""
        self.sent[leg, kind] += 1
        self.timeline.after(self._delay_us, server.take, action, arguments)

    def to_client(self, leg: Leg, kind: str, action: Callable[..., None], *arguments: Any) -> None:
        self.sent[leg, kind] += 1
        self.timeline.after(self._delay_us, action, *arguments)


class Server:
    """One process: messages are dealt with one after another. `disk` is its own."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.timeline = network.timeline
        self.disk = Disk(network.timeline, network.costs.sync_us)
        self._free_at_us = 0

    def take(self, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        now_us = self.timeline.now_us
        self._free_at_us = max(now_us, self._free_at_us) + self.network.costs.service_us
        self.timeline.at(self._free_at_us, action, *arguments)


class Disk:
    """Group commit: what comes while a sync runs shares the next one."""

    def __init__(self, timeline: Timeline, sync_us: int) -> None:
        self._timeline = timeline
        self._sync_us = sync_us
        self._waiting: list[Callable[[], None]] = []
        self._syncing = False

    def write(self, then: Callable[[], None]) -> None:
        """Store something; `then` runs when it, and all that came before, is durable."""
        self._waiting.append(then)
        self._sync()

    def after_writes(self, then: Callable[[], None]) -> None:
        """Store nothing; `then` runs when all that came before is durable."""
        if self._syncing:
            self._waiting.append(then)
        else:
            then()

    def _sync(self) -> None:
        if self._syncing or not self._waiting:
            return
        batch, self._waiting = self._waiting, []
        self._syncing = True
        self._timeline.after(self._sync_us, self._synced, batch)

    def _synced(self, batch: list[Callable[[], None]]) -> None:
        self._syncing = False
        for then in batch:
            then()
        self._sync()
