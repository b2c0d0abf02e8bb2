"""What every scheme offers to the clients, and what they keep account of together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from benchmarks.contenders.demand import Order


class Booked(NamedTuple):
    """A booking by its scheme's name for it, and its hour of the window."""

    name: str
    hour: int


Reply = Callable[["Booked | None"], None]
"""Takes the booking; or None: the order was refused, and nothing is held for it."""


class Scheme(Protocol):
    """A way to book all resources of an order for one hour, or none of them."""

    def book(self, order: Order, reply: Reply) -> None:
        """Begin; `reply` is called once, when the client has the answer."""

    def give_back(self, order: Order, booked: Booked) -> None:
        """The booking is not needed any more."""

    def taken(self, resource: int) -> set[int]:
        """The hours of `resource` that are not free now, as its owner knows it."""


def given_back() -> None:
    """The client takes note that it was given back."""


class Losses:
    """What contention costs beside messages, in the scheme's own terms.

    `refused` counts the times that a server said no, or took back, by reason. `kept_in_vain_us`: for
    each slot of each resource how long it was held or promised for a request that then did not get it.
    `blocked_us`: for each resource how long it was locked as a whole while others waited for it.
    """

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self.kept_in_vain_us = 0
        self.blocked_us = 0

    def copy(self) -> Losses:
        """As it is now."""
        copied = Losses()
        copied.refused = self.refused.copy()
        copied.kept_in_vain_us, copied.blocked_us = self.kept_in_vain_us, self.blocked_us
        return copied


class Hours:
    """A resource's calendar of whole hours: which are taken, and by whom."""

    def __init__(self) -> None:
        self.taken: dict[int, str] = {}

    def take(self, hour: int, name: str) -> None:
        """Raises `ValueError` when another has it."""
        if self.taken.get(hour, name) != name:
            raise ValueError(f"hour {hour} is {self.taken[hour]}'s, not {name}'s")
        self.taken[hour] = name

    def free(self, hour: int, name: str) -> None:
        """Nothing happens when it is another's, or nobody's."""
        if self.taken.get(hour) == name:
            del self.taken[hour]


def earliest_common(taken: Sequence[Collection[int]], hours: int) -> int | None:
    """The first of `hours` hours that none of the calendars has taken."""
    for hour in range(hours):
        if not any(hour in each for each in taken):
            return hour
    return None
