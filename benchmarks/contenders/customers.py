"""The clients: each books, keeps what it gets for a while, gives it back, and asks for the next at once.

They hold every scheme to its promise: no two bookings that both stand share a resource and an hour, and
a booking of a fixed hour is for that hour.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.contenders.demand import Demand, Order, Scenario
from benchmarks.contenders.scheme import Booked, Scheme
from benchmarks.contenders.virtual_time import Timeline


class DoubleBooked(Exception):
    """A scheme is broken: what two clients were told cannot both be true."""


class Served(NamedTuple):
    """One booking: when it was first asked for, when its client knew, how often it was asked for."""

    order: Order
    asked_us: int
    told_us: int
    tries: int
    hour: int


class Customers:
    """`served` lists the bookings in the order in which clients learned of them."""

    def __init__(
        self, timeline: Timeline, scenario: Scenario, demand: Demand, scheme: Scheme
    ) -> None:
        self._timeline = timeline
        self._scenario = scenario
        self._demand = demand
        self._scheme = scheme
        self._standing: dict[tuple[int, int], int] = {}
        self.served: list[Served] = []
        self.waiting_since_us: dict[int, int] = {}
        """For each client since when it has wanted what it has not got yet."""

    def start(self) -> None:
        for client in range(self._scenario.clients):
            self._timeline.after(self._demand.start_us(client), self._ask, client)

    def _ask(self, client: int) -> None:
        self.waiting_since_us[client] = self._timeline.now_us
        self._try(self._demand.next(client), 1)

    def _try(self, order: Order, tries: int) -> None:
        def told(booked: Booked | None) -> None:
            if booked is None:
                self._try(self._demand.after_refusal(order), tries + 1)
            else:
                self._booked(order, booked, tries)

        self._scheme.book(order, told)

    def _booked(self, order: Order, booked: Booked, tries: int) -> None:
        self._check(order, booked)
        now_us = self._timeline.now_us
        asked_us = self.waiting_since_us.pop(order.client)
        self.served.append(Served(order, asked_us, now_us, tries, booked.hour))
        self._timeline.after(self._scenario.kept_ms * 1_000, self._give_back, order, booked)
        self._ask(order.client)

    def _check(self, order: Order, booked: Booked) -> None:
        if order.hour >= 0 and booked.hour != order.hour:
            raise DoubleBooked(f"{order} was given hour {booked.hour}")
        for resource in order.resources:
            other = self._standing.setdefault((resource, booked.hour), order.number)
            if other != order.number:
                raise DoubleBooked(
                    f"orders {other} and {order.number} have resource {resource}, hour {booked.hour}"
                )

    def _give_back(self, order: Order, booked: Booked) -> None:
        for resource in order.resources:
            del self._standing[resource, booked.hour]
        self._scheme.give_back(order, booked)
