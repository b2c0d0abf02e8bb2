"""The central scheduler: one server knows all calendars. One round trip, one sync, no distribution.

What no set of owners would agree to, and the best that can be had (Ramamoorthi et al. 1997, section 2).
"""

from __future__ import annotations

from functools import partial

from benchmarks.contenders.demand import Order, Scenario
from benchmarks.contenders.network import Network, Server
from benchmarks.contenders.scheme import Booked, Hours, Losses, Reply, earliest_common, given_back


class Central:
    """Never holds anything: what is free is given at once."""

    def __init__(self, network: Network, scenario: Scenario, losses: Losses, seed: int) -> None:
        self._network = network
        self._server = Server(network)
        self._hours = scenario.hours
        self._calendars = [Hours() for _ in range(scenario.resource_count)]
        self._losses = losses

    def book(self, order: Order, reply: Reply) -> None:
        self._network.to_server("client", "book", self._server, self._book, order, reply)

    def give_back(self, order: Order, booked: Booked) -> None:
        self._network.to_server("back", "cancel", self._server, self._cancel, order, booked)

    def taken(self, resource: int) -> set[int]:
        return set(self._calendars[resource].taken)

    def _book(self, order: Order, reply: Reply) -> None:
        calendars = [self._calendars[number] for number in order.resources]
        taken = [calendar.taken for calendar in calendars]
        hour: int | None = order.hour
        if order.hour < 0:
            hour = earliest_common(taken, self._hours)
        elif any(order.hour in each for each in taken):
            hour = None
        if hour is None:
            self._losses.refused["taken"] += 1
            self._network.to_client("client", "answer", reply, None)
            return
        booked = Booked(str(order.number), hour)
        for calendar in calendars:
            calendar.take(hour, booked.name)
        answer = partial(self._network.to_client, "client", "answer", reply, booked)
        self._server.disk.write(answer)

    def _cancel(self, order: Order, booked: Booked) -> None:
        for number in order.resources:
            self._calendars[number].free(booked.hour, booked.name)
        answer = partial(self._network.to_client, "back", "answer", given_back)
        self._server.disk.write(answer)
