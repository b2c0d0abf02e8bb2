"""The paper's Figure 2: what stands idle when resources are locked, and what when hours are booked.

One job uses the first resource, a second waits for the first and the other, a third needs only the
other. Where resources are locked, the second keeps the other one from the third while it waits itself
(Ramamoorthi et al. 1997, section 2); where jobs have hours in calendars, nothing that somebody could use
stands idle.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

from benchmarks.contenders.demand import Order, Scenario
from benchmarks.contenders.measures import SCHEMES
from benchmarks.contenders.network import Costs, Network, Server
from benchmarks.contenders.scheme import Booked, Losses
from benchmarks.contenders.virtual_time import Timeline
from benchmarks.contenders.whole_lock import Stamp, WholeLock, Word

Jobs = Sequence[tuple[int, ...]]
"""What each job needs together, for one hour; they are asked for one after the other."""

THE_PAPERS: Final[Jobs] = ((0,), (0, 1), (1,))

HOUR_US: Final = 3_600_000_000
ASK_EVERY_US: Final = 1_000_000
SECONDS_MAX: Final = 10_000_000


def many_jobs(count: int, resources: int, seed: int) -> Jobs:
    """Jobs that need one to three of `resources`."""
    random = Random(seed)
    return [
        tuple(sorted(random.sample(range(resources), random.choice((1, 2, 3)))))
        for _ in range(count)
    ]


class Use(NamedTuple):
    """A job had its resources during ``[start_us, end_us)``."""

    resources: tuple[int, ...]
    start_us: int
    end_us: int


def measure(scheme: str, jobs: Jobs, costs: Costs, seed: int) -> dict[str, Any]:
    """Idle hours that somebody could have used, and when all was over, in hours.

    `scheme` is one of `SCHEMES`, for hours in calendars; or "whole resources".
    """
    run = used_by_locking if scheme == "whole resources" else partial(used_by_booking, scheme)
    uses, begin_us = run(jobs, costs, seed)
    idle_us = idle_while_wanted(uses, begin_us)
    return {
        "scheme": scheme,
        "jobs": len(jobs),
        "idle_hours": round(idle_us / HOUR_US, 3),
        "end_hours": round((max(use.end_us for use in uses) - begin_us) / HOUR_US, 3),
        "start_hours": [round((use.start_us - begin_us) / HOUR_US, 3) for use in uses][:8],
    }


def used_by_booking(scheme: str, jobs: Jobs, costs: Costs, seed: int) -> tuple[list[Use], int]:
    """Every job books the earliest hour that all its resources have; hours count from the first."""
    timeline = Timeline()
    network = Network(timeline, costs)
    resources = max(max(job) for job in jobs) + 1
    scenario = Scenario(len(jobs), resources)
    chosen = SCHEMES[scheme](network, scenario, Losses(), seed)
    hours: dict[int, int] = {}

    def ask(order: Order) -> None:
        chosen.book(order, partial(told, order))

    def told(order: Order, booked: Booked | None) -> None:
        if booked is None:
            ask(order)
        else:
            hours[order.client] = booked.hour

    for number, job in enumerate(jobs):
        timeline.at(number * ASK_EVERY_US, ask, Order(number, number, job))
    timeline.run(SECONDS_MAX * 1_000_000, lambda: len(hours) == len(jobs))
    uses = [
        Use(job, hours[number] * HOUR_US, (hours[number] + 1) * HOUR_US)
        for number, job in enumerate(jobs)
    ]
    return uses, 0


def used_by_locking(jobs: Jobs, costs: Costs, seed: int) -> tuple[list[Use], int]:
    """Every job locks its resources as local clocks do, and uses them for an hour once it has all."""
    timeline = Timeline()
    network = Network(timeline, costs)
    resources = [LockedResource(network) for _ in range(max(max(job) for job in jobs) + 1)]
    uses: dict[int, Use] = {}
    for number, job in enumerate(jobs):
        using = Using(network, number, job, resources, uses)
        timeline.at(number * ASK_EVERY_US, using.begin)
    timeline.run(len(jobs) * 2 * HOUR_US, lambda: len(uses) == len(jobs))
    ordered = [uses[number] for number in range(len(jobs))]
    return ordered, min(use.start_us for use in ordered)


class LockedResource:
    """A resource that is lent out as a whole."""

    def __init__(self, network: Network) -> None:
        self.server = Server(network)
        self._network = network
        self._lock = WholeLock()
        self._wanted_by: dict[Stamp, Using] = {}

    def request(self, by: Using) -> None:
        self._wanted_by[by.stamp] = by
        self._say(self._lock.request(by.stamp))

    def relinquish(self, by: Using) -> None:
        self._say(self._lock.relinquish(by.stamp))

    def release(self, by: Using) -> None:
        self._say(self._lock.release(by.stamp))

    def _say(self, words: Sequence[Word]) -> None:
        for kind, stamp in words:
            by = self._wanted_by[stamp]
            self._network.to_client(
                "site", kind, by.granted if kind == "grant" else by.recalled, self
            )


class Using:
    """One job: it has what it was granted until it is recalled, and begins when it has all."""

    def __init__(
        self,
        network: Network,
        number: int,
        job: tuple[int, ...],
        resources: Sequence[LockedResource],
        uses: dict[int, Use],
    ) -> None:
        self.stamp: Stamp = (0, number)
        self._network = network
        self._number = number
        self._job = job
        self._resources = [resources[each] for each in job]
        self._granted: set[int] = set()
        self._uses = uses

    def begin(self) -> None:
        self.stamp = (self._network.timeline.now_us, self._number)
        self._tell_all(LockedResource.request)

    def granted(self, resource: LockedResource) -> None:
        self._granted.add(id(resource))
        if len(self._granted) == len(self._resources):
            now_us = self._network.timeline.now_us
            self._uses[self._number] = Use(self._job, now_us, now_us + HOUR_US)
            self._network.timeline.after(HOUR_US, self._tell_all, LockedResource.release)

    def recalled(self, resource: LockedResource) -> None:
        if self._number not in self._uses:
            self._granted.discard(id(resource))
            self._network.to_server(
                "site", "relinquish", resource.server, resource.relinquish, self
            )

    def _tell_all(self, what: Callable[[LockedResource, Using], None]) -> None:
        for resource in self._resources:
            self._network.to_server("site", what.__name__, resource.server, what, resource, self)


def idle_while_wanted(uses: Sequence[Use], begin_us: int) -> int:
    """Resource-time from `begin_us` that nobody used, though a job that came later could have.

    At each moment jobs that have not begun are taken in order; one whose resources are all unused then,
    and not wanted by one before it that could have had them, makes these resources idle.
    """
    times = sorted({begin_us, *(t for use in uses for t in (use.start_us, use.end_us))})
    idle_us = 0
    for start_us, end_us in itertools.pairwise(times):
        busy = {
            resource
            for use in uses
            if use.start_us <= start_us < use.end_us
            for resource in use.resources
        }
        for use in uses:
            if use.start_us > start_us and not busy & set(use.resources):
                busy |= set(use.resources)
                idle_us += len(use.resources) * (end_us - start_us)
    return idle_us
