"""One run of one scheme, and the figures of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from benchmarks.contenders.central import Central
from benchmarks.contenders.customers import Customers, Served
from benchmarks.contenders.demand import Demand, Scenario
from benchmarks.contenders.local_clocks import LocalClocks
from benchmarks.contenders.naive import Naive
from benchmarks.contenders.network import Costs, Leg, Network
from benchmarks.contenders.ours import Ours
from benchmarks.contenders.scheme import Losses, Scheme
from benchmarks.contenders.virtual_time import Timeline

Maker = Callable[[Network, Scenario, Losses, int], Scheme]


def _two_replicas(network: Network, scenario: Scenario, losses: Losses, seed: int) -> Scheme:
    return Ours(network, scenario, losses, seed, replicas=2)


SCHEMES: Final[dict[str, Maker]] = {
    "ours": Ours,
    "ours-2": _two_replicas,
    "local-clocks": LocalClocks,
    "central": Central,
    "naive": Naive,
}
"""By name; "ours-2" is kalends with two replicas of the broker."""


class Length(NamedTuple):
    """How long a run is, in virtual time.

    It is warm after `warm_up_s`, the time that bookings are kept, and two bookings a client. Then it
    goes on for `seconds`, and until there are `bookings_each` bookings a client, and `bookings`
    together. Neither part is longer than `seconds_max`.
    """

    warm_up_s: float
    seconds: float
    seconds_max: float
    bookings_each: int
    bookings: int


def run(scheme: str, scenario: Scenario, costs: Costs, length: Length, seed: int) -> dict[str, Any]:
    """The figures of `scheme` in `scenario`; raises `DoubleBooked` when it breaks its promise.

    All but `processor_us` are a function of the arguments.
    """
    timeline = Timeline()
    network = Network(timeline, costs)
    losses = Losses()
    chosen = SCHEMES[scheme](network, scenario, losses, seed)
    customers = Customers(timeline, scenario, Demand(scenario, seed), chosen)
    began_s = time.process_time()
    customers.start()
    longest_us = round(length.seconds_max * 1e6)
    timeline.run(round(length.warm_up_s * 1e6) + scenario.kept_ms * 1_000)
    timeline.run(longest_us, lambda: len(customers.served) >= 2 * scenario.clients)
    before = _State(timeline.now_us, len(customers.served), network.sent.copy(), losses.copy())
    enough = before.served + max(length.bookings_each * scenario.clients, length.bookings)
    timeline.run(before.now_us + round(length.seconds * 1e6))
    timeline.run(before.now_us + longest_us, lambda: len(customers.served) >= enough)
    used_s = time.process_time() - began_s
    figures = _figures(customers, network, losses, timeline, before)
    used = {"processor_us": round(used_s * 1e6 / max(len(customers.served), 1))}
    return {"scheme": scheme, **scenario._asdict(), **figures, **used}


class _State(NamedTuple):
    now_us: int
    served: int
    sent: Counter[tuple[Leg, str]]
    losses: Losses


def _figures(
    customers: Customers, network: Network, losses: Losses, timeline: Timeline, before: _State
) -> dict[str, Any]:
    served = customers.served[before.served :]
    count = max(len(served), 1)
    seconds = (timeline.now_us - before.now_us) / 1e6
    sent = network.sent - before.sent
    legs: Counter[str] = Counter()
    for (leg, _), number in sent.items():
        legs[leg] += number
    refused = losses.refused - before.losses.refused
    times_ms = sorted((each.told_us - each.asked_us) / 1e3 for each in served)
    passed = overtaken(served)
    longest_us = max(
        (timeline.now_us - since_us for since_us in customers.waiting_since_us.values()), default=0
    )
    return {
        "bookings": len(served),
        "seconds": round(seconds, 3),
        "bookings_per_s": round(len(served) / seconds, 2) if seconds else 0.0,
        "p50_ms": percentile(times_ms, 0.5),
        "p95_ms": percentile(times_ms, 0.95),
        "p99_ms": percentile(times_ms, 0.99),
        "longest_ms": round(max([longest_us / 1e3, *times_ms[-1:]]), 2),
        "hour_mean": round(sum(each.hour for each in served) / count, 2),
        "client_messages": round(legs["client"] / count, 2),
        "site_messages": round(legs["site"] / count, 2),
        "messages": round((legs["client"] + legs["site"]) / count, 2),
        "give_back_messages": round(legs["back"] / count, 2),
        "by_kind": {
            f"{leg} {kind}": round(number / count, 3)
            for (leg, kind), number in sorted(sent.items())
        },
        "tries": round(sum(each.tries for each in served) / count, 3),
        "refused": round(refused.total() / count, 3),
        "refused_by_reason": {
            reason: round(number / count, 3) for reason, number in sorted(refused.items())
        },
        "jain": jain([sum(1 for _ in group) for group in _by_client(served, customers)]),
        "overtaken_mean": round(sum(passed) / count, 3),
        "overtaken_max": max(passed, default=0),
        "kept_in_vain_s": _per(losses.kept_in_vain_us - before.losses.kept_in_vain_us, count),
        "blocked_s": _per(losses.blocked_us - before.losses.blocked_us, count),
    }


def _per(total_us: int, count: int) -> float:
    return round(total_us / 1e6 / count, 4)


def _by_client(served: Sequence[Served], customers: Customers) -> list[list[Served]]:
    groups: dict[int, list[Served]] = {client: [] for client in customers.waiting_since_us}
    for each in served:
        groups.setdefault(each.order.client, []).append(each)
    return list(groups.values())


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that `share` of `ordered` do not exceed; 0 of nothing."""
    if not ordered:
        return 0.0
    return round(ordered[min(int(share * len(ordered)), len(ordered) - 1)], 2)


def jain(amounts: Sequence[int]) -> float:
    """Jain's index of fairness: 1 when all have the same, 1/n when one of n has everything."""
    squares = sum(amount * amount for amount in amounts)
    return round(sum(amounts) ** 2 / (len(amounts) * squares), 4) if squares else 0.0


def overtaken(served: Sequence[Served]) -> list[int]:
    """For each booking how many that were asked for later, and wanted some of the same, came before it.

    `served` is in order of service.
    """
    masks = [sum(1 << number for number in each.order.resources) for each in served]
    counts = []
    for at, each in enumerate(served):
        earlier = at - 1
        passed = 0
        while earlier >= 0 and served[earlier].told_us > each.asked_us:
            if served[earlier].asked_us > each.asked_us and masks[earlier] & masks[at]:
                passed += 1
            earlier -= 1
        counts.append(passed)
    return counts
