"""What the clients want: which resources, together, at which time. A function of the seed."""

from __future__ import annotations

import itertools
from random import Random
from typing import Final, Literal, NamedTuple

Spread = Literal["uniform", "zipf", "disjoint"]
"""How clients choose resources: all alike; the n-th with weight 1/n; or each client its own."""

Wish = Literal["earliest", "fixed", "scarce"]
"""For when: the earliest common hour of a window that never fills; just the first hour, and whoever is
refused some later one; or the earliest of a window so short that most must wait."""

WIDE_HOURS: Final = 2_880
SCARCE_HOURS: Final = 8

LATER_HOURS: Final = 48
"""Whoever is refused a fixed hour asks for one of so many after it."""


class Scenario(NamedTuple):
    """`clients` that book two or three of `resources`, keep them for `kept_ms`, and give them back.

    With "disjoint" every client has three resources of its own, and `resources` is not used. A site
    has `per_site` resources.
    """

    clients: int
    resources: int
    spread: Spread = "uniform"
    wish: Wish = "earliest"
    kept_ms: int = 500
    per_site: int = 1

    @property
    def resource_count(self) -> int:
        return self.clients * 3 if self.spread == "disjoint" else self.resources

    @property
    def hours(self) -> int:
        """How long the window is."""
        return SCARCE_HOURS if self.wish == "scarce" else WIDE_HOURS


class Order(NamedTuple):
    """What one client asks for: `resources` by number; `hour` of the window, or -1 for the earliest."""

    number: int
    client: int
    resources: tuple[int, ...]
    hour: int = -1


class Demand:
    """The orders of every client, each from its own stream: all schemes get the same ones."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario = scenario
        self._randoms = [Random(f"{seed}:{client}") for client in range(scenario.clients)]
        self._later = [Random(f"{seed}:later:{client}") for client in range(scenario.clients)]
        weights = (1 / (number + 1) for number in range(scenario.resource_count))
        self._cumulated = list(itertools.accumulate(weights))
        self._numbers = 0

    def start_us(self, client: int) -> int:
        """Clients begin spread over a tenth of a second."""
        return self._randoms[client].randrange(100_000)

    def next(self, client: int) -> Order:
        self._numbers += 1
        hour = 0 if self._scenario.wish == "fixed" else -1
        return Order(self._numbers, client, self._resources(client), hour)

    def after_refusal(self, order: Order) -> Order:
        """What the client asks for now: the same, or another fixed hour."""
        if order.hour < 0:
            return order
        later = order.hour + 1 + self._later[order.client].randrange(LATER_HOURS)
        return order._replace(hour=later % self._scenario.hours)

    def _resources(self, client: int) -> tuple[int, ...]:
        random = self._randoms[client]
        parts = random.choice((2, 3))
        if self._scenario.spread == "disjoint":
            return tuple(range(client * 3, client * 3 + parts))
        numbers = range(self._scenario.resources)
        if self._scenario.spread == "uniform":
            return tuple(sorted(random.sample(numbers, parts)))
        chosen: set[int] = set()
        while len(chosen) < parts:
            chosen.update(random.choices(numbers, cum_weights=self._cumulated))
        return tuple(sorted(chosen))
