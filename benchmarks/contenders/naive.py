"""Hold one resource after the other; when one is refused, release all, wait at random, and try again.

What a program does that knows only the owners' booking pages. Always in the same order of resources, so
that no two wait for each other. The last hold makes the booking: there is no vote, and a client that dies
half way leaves holds behind. Clients speak to the sites themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from benchmarks.contenders.demand import Order, Scenario
from benchmarks.contenders.direct import Direct, OwnersCalendar
from benchmarks.contenders.network import Network, Server
from benchmarks.contenders.scheme import Booked, Losses, Reply, earliest_common

BACK_OFF_US: Final = 100_000
BACK_OFF_US_MAX: Final = 3_200_000
"""The longest wait after the first refusal of an order; twice as long after each further one."""


class Naive(Direct["HeldCalendar"]):
    """Where an hour is wanted that is not held but confirmed, no waiting helps: that is a refusal."""

    def __init__(self, network: Network, scenario: Scenario, losses: Losses, seed: int) -> None:
        super().__init__(network, scenario, losses, HeldCalendar)
        self._randoms = [Random(f"{seed}:naive:{client}") for client in range(scenario.clients)]

    def book(self, order: Order, reply: Reply) -> None:
        resources = [self._resources[number] for number in order.resources]
        random = self._randoms[order.client]
        Trying(self._network, order, resources, self._hours, random, reply).begin()


class HeldCalendar(OwnersCalendar):
    """An hour is held for an order, and then confirmed or released."""

    def __init__(self, network: Network, server: Server, losses: Losses) -> None:
        super().__init__(network, server, losses)
        self._held_since_us: dict[str, int] = {}

    def look(self, by: Trying) -> None:
        self._answer("view", by.seen, frozenset(self._calendar.taken))

    def hold(self, booked: Booked, by: Trying) -> None:
        holder = self._calendar.taken.get(booked.hour)
        if holder is not None:
            reason = "held" if holder in self._held_since_us else "taken"
            self._losses.refused[reason] += 1
            self._answer("refused", by.refused, reason == "held")
            return
        self._calendar.take(booked.hour, booked.name)
        self._held_since_us[booked.name] = self._network.timeline.now_us
        self.server.disk.write(partial(self._network.to_client, "site", "held", by.held))

    def release(self, booked: Booked) -> None:
        since_us = self._held_since_us.pop(booked.name)
        self._losses.kept_in_vain_us += self._network.timeline.now_us - since_us
        self._calendar.free(booked.hour, booked.name)

    def confirm(self, booked: Booked) -> None:
        del self._held_since_us[booked.name]

    def _answer(self, kind: str, action: Callable[..., None], what: object) -> None:
        say = partial(self._network.to_client, "site", kind, action, what)
        self.server.disk.after_writes(say)


class Trying:
    """One order on its way: look, hold one by one, and again."""

    def __init__(
        self,
        network: Network,
        order: Order,
        resources: Sequence[HeldCalendar],
        hours: int,
        random: Random,
        reply: Reply,
    ) -> None:
        self._network = network
        self._order = order
        self._resources = resources
        self._hours = hours
        self._random = random
        self._reply = reply
        self._views: list[frozenset[int]] = []
        self._held = 0
        self._tries = 0
        self._booked = Booked("", 0)

    def begin(self) -> None:
        self._views = []
        self._held = 0
        if self._order.hour >= 0:
            self._choose(self._order.hour)
            return
        for resource in self._resources:
            self._network.to_server("site", "look", resource.server, resource.look, self)

    def seen(self, taken: frozenset[int]) -> None:
        self._views.append(taken)
        if len(self._views) == len(self._resources):
            hour = earliest_common(self._views, self._hours)
            if hour is None:
                self._reply(None)
            else:
                self._choose(hour)

    def held(self) -> None:
        self._held += 1
        if self._held < len(self._resources):
            self._hold_next()
            return
        for resource in self._resources:
            self._network.to_server(
                "site", "confirm", resource.server, resource.confirm, self._booked
            )
        self._reply(self._booked)

    def refused(self, may_come_free: bool) -> None:
        for resource in self._resources[: self._held]:
            self._network.to_server(
                "site", "release", resource.server, resource.release, self._booked
            )
        if self._order.hour >= 0 and not may_come_free:
            self._reply(None)
            return
        longest_us = min(BACK_OFF_US << min(self._tries, 16), BACK_OFF_US_MAX)
        self._tries += 1
        self._network.timeline.after(self._random.randrange(longest_us), self.begin)

    def _choose(self, hour: int) -> None:
        self._booked = Booked(f"{self._order.number}.{self._tries}", hour)
        self._hold_next()

    def _hold_next(self) -> None:
        resource = self._resources[self._held]
        self._network.to_server("site", "hold", resource.server, resource.hold, self._booked, self)
