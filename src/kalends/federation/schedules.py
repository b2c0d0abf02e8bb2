"""Schedules of one job on one machine: the ways in which it may run there, and when. Which one is offered.

"This algorithm may be configured for high throughput, bias to parallel or sequential jobs, reduced completion
time, etc." (Weissman and Grimshaw 1996, section 4.3.) The owner states the aim; a job may rank them itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

Aim = Literal["", "response", "throughput", "parallel", "sequential", "cost"]
"""The owner's aim; "": the way that the broker has put first."""


class OfferedSchedule(NamedTuple):
    """The job in way number `way`, on `nodes` nodes from `start` (seconds UTC) for `runs_s` at most.

    `promised`: the queue's policy promises that start. It costs `price` credits at most.
    """

    way: int
    implementation: str
    nodes: int
    start: int
    promised: bool
    runs_s: int
    price: float = 0.0

    @property
    def end(self) -> int:
        return self.start + self.runs_s


_ORDERS: Final[Mapping[str, Callable[[OfferedSchedule], Any]]] = MappingProxyType(
    {
        "": lambda each: each.way,
        "response": lambda each: (),
        "throughput": lambda each: each.nodes * each.runs_s,
        "parallel": lambda each: -each.nodes,
        "sequential": lambda each: each.nodes,
        "cost": lambda each: each.price,
    }
)


def in_order(schedules: Iterable[OfferedSchedule], aim: Aim) -> list[OfferedSchedule]:
    """Return the schedules, the best by the owner's aim first.

    ``response``: the earliest end. ``throughput``: the fewest node-seconds, which leave most room to others.
    ``parallel`` and ``sequential``: the most, and the fewest nodes. ``cost``: the fewest credits. Of equal
    ones the one that ends first, and then the one that the broker has put first.
    """
    order = _ORDERS[aim]
    return sorted(schedules, key=lambda each: (order(each), each.end, each.way))
