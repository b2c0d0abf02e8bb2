"""Calendars that are locked as a whole, in the order of logical clocks, for as long as a client reserves.

The paper's first solution for several resource managers (Ramamoorthi et al. 1997, section 4): a client
locks the calendars of all its resources, reads them, writes the booking into each, and unlocks. Clients
speak to the sites themselves, which saves the way over a broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks.contenders.demand import Order, Scenario
from benchmarks.contenders.direct import Direct, OwnersCalendar
from benchmarks.contenders.network import Network, Server
from benchmarks.contenders.scheme import Booked, Losses, Reply, earliest_common
from benchmarks.contenders.whole_lock import Stamp, WholeLock, Word


class LocalClocks(Direct["LockedCalendar"]):
    """Every client gives out the stamps of its orders; the clocks of all show the same time."""

    def __init__(self, network: Network, scenario: Scenario, losses: Losses, seed: int) -> None:
        super().__init__(network, scenario, losses, LockedCalendar)

    def book(self, order: Order, reply: Reply) -> None:
        resources = [self._resources[number] for number in order.resources]
        stamp = (self._network.timeline.now_us, order.client)
        Locking(self._network, self._losses, order, stamp, resources, self._hours, reply).begin()


class LockedCalendar(OwnersCalendar):
    """Freeing an hour needs no lock; all else does."""

    def __init__(self, network: Network, server: Server, losses: Losses) -> None:
        super().__init__(network, server, losses)
        self._lock = WholeLock()
        self._wanted_by: dict[Stamp, Locking] = {}
        self._blocked_since_us = -1

    def request(self, stamp: Stamp, by: Locking) -> None:
        self._wanted_by[stamp] = by
        self._say(self._lock.request(stamp))

    def relinquish(self, stamp: Stamp) -> None:
        self._say(self._lock.relinquish(stamp))

    def release(self, stamp: Stamp, booked: Booked | None) -> None:
        """Write `booked` into the calendar, or nothing, and unlock."""
        by = self._wanted_by.pop(stamp)
        if booked is not None:
            self._calendar.take(booked.hour, booked.name)
            done = partial(self._network.to_client, "site", "done", by.done, booked)
            self.server.disk.write(done)
        self._say(self._lock.release(stamp))

    def _say(self, words: Sequence[Word]) -> None:
        self._account()
        for kind, stamp in words:
            by = self._wanted_by[stamp]
            if kind == "grant":
                taken = frozenset(self._calendar.taken)
                say = partial(self._network.to_client, "site", kind, by.granted, self, taken)
            else:
                self._losses.refused["recalled"] += 1
                say = partial(self._network.to_client, "site", kind, by.recalled, self)
            self.server.disk.after_writes(say)

    def _account(self) -> None:
        """Count the time up to now in which others waited for the holder."""
        now_us = self._network.timeline.now_us
        if self._blocked_since_us >= 0:
            self._losses.blocked_us += now_us - self._blocked_since_us
        self._blocked_since_us = now_us if self._lock.blocks else -1


class Locking:
    """One order on its way: `stamp` is its place in every queue."""

    def __init__(
        self,
        network: Network,
        losses: Losses,
        order: Order,
        stamp: Stamp,
        resources: Sequence[LockedCalendar],
        hours: int,
        reply: Reply,
    ) -> None:
        self._network = network
        self._losses = losses
        self._order = order
        self._stamp = stamp
        self._resources = resources
        self._hours = hours
        self._reply = reply
        self._granted: dict[LockedCalendar, frozenset[int]] = {}
        self._using = False
        self._unwritten = len(resources)

    def begin(self) -> None:
        for resource in self._resources:
            self._network.to_server(
                "site", "request", resource.server, resource.request, self._stamp, self
            )

    def granted(self, resource: LockedCalendar, taken: frozenset[int]) -> None:
        self._granted[resource] = taken
        if len(self._granted) == len(self._resources):
            self._use()

    def recalled(self, resource: LockedCalendar) -> None:
        """An older request wants it: it may have it, unless all is locked here already."""
        if not self._using:
            del self._granted[resource]
            self._network.to_server(
                "site", "relinquish", resource.server, resource.relinquish, self._stamp
            )

    def done(self, booked: Booked) -> None:
        self._unwritten -= 1
        if not self._unwritten:
            self._reply(booked)

    def _use(self) -> None:
        self._using = True
        taken = list(self._granted.values())
        hour: int | None = self._order.hour
        if self._order.hour < 0:
            hour = earliest_common(taken, self._hours)
        elif any(self._order.hour in each for each in taken):
            hour = None
        booked = Booked(str(self._order.number), hour) if hour is not None else None
        for resource in self._resources:
            self._network.to_server(
                "site", "release", resource.server, resource.release, self._stamp, booked
            )
        if booked is None:
            self._losses.refused["taken"] += 1
            self._reply(None)
