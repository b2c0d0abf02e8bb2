"""How long the planner takes: many alternatives over many resources, with and without weights.

    python benchmarks/planner.py [--resources 1000] [--alternatives 20] [--json]

Prints JSON: for each case the milliseconds of the best of several runs, the weight, and how many plans
were found. The world is made from a seed: the same numbers give the same work. Nothing is asserted.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # In place of this folder, whose calendar.py would stand in for the standard library's.
    sys.path.pop(0)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import argparse
import json
import random
import time
from itertools import pairwise
from typing import Any

import msgspec

from kalends.broker.planning.planner import Free, Infos, plan
from kalends.core.language import parse_request
from kalends.core.requests import Request, TimePreference
from kalends.core.resources import ResourceInfo

T0 = 1_767_225_600
HOUR_S = 3_600
DAY_S = 24 * HOUR_S
KINDS = ("sgi", "pentium", "cluster", "sp2", "onyx")
GRAINS_S = (300, 600, 900)
RUNS = 3


def world(rng: random.Random, number: int, bookings: int, days: int) -> tuple[Infos, Free]:
    """`number` resources of five kinds; each has so many bookings of a few hours in its calendar."""
    infos, free = {}, {}
    for place in range(number):
        name = f"site{place % 40}/r{place}"
        capacity = rng.choice((1, 16, 64))
        grain_s = rng.choice(GRAINS_S)
        infos[name] = ResourceInfo(
            name=name,
            capacity=capacity,
            grain_s=grain_s,
            attributes={
                "kind": rng.choice(KINDS),
                "memory": rng.choice((16, 32, 64, 128, 256)),
                "shared": rng.random() < 0.5,
                "speed": rng.randint(1, 20),
            },
        )
        free[name] = calendar(rng, capacity, grain_s, bookings, days)
    return infos, free


def calendar(
    rng: random.Random, capacity: int, grain_s: int, bookings: int, days: int
) -> list[tuple[int, int, int]]:
    """Free steps: what bookings at random times and of random amounts leave."""
    changes = {T0: 0, T0 + days * DAY_S: 0}
    for _ in range(bookings):
        start = T0 + rng.randrange(days * DAY_S // grain_s) * grain_s
        end = min(start + rng.randint(1, 36) * grain_s, T0 + days * DAY_S)
        units = rng.randint(1, capacity)
        changes[start] = changes.get(start, 0) + units
        changes[end] = changes.get(end, 0) - units
    moments = sorted(changes)
    steps, used = [], 0
    for start, end in pairwise(moments):
        used += changes[start]
        if used < capacity:
            steps.append((start, end, capacity - used))
    return steps


def asked(terms: str, alternatives: int, days: int) -> Request:
    """A request with this number of alternatives, made from `terms`.

    ``KIND``, ``OTHER`` and ``SPEED`` in it stand for values that change from one alternative to the next.
    """
    text = " | ".join(
        terms.replace("KIND", KINDS[number % 5])
        .replace("OTHER", KINDS[(number // 5 + number + 1) % 5])
        .replace("SPEED", str(1 + number % 7))
        + f" weight {1 + number % 4}"
        for number in range(alternatives)
    )
    return parse_request(text, duration="2h", not_after=T0 + days * DAY_S, now_s=T0, zone="UTC")


def mornings(request: Request, days: int) -> Request:
    """`request`, with every morning preferred, and weekends avoided."""
    preferences = [
        TimePreference(
            start=T0 + day * DAY_S + 8 * HOUR_S, end=T0 + day * DAY_S + 12 * HOUR_S, weight=1.0
        )
        for day in range(days)
    ]
    preferences += [
        TimePreference(start=T0 + day * DAY_S, end=T0 + (day + 2) * DAY_S, weight=-2.5)
        for day in range(3, days, 7)
    ]
    return msgspec.structs.replace(request, preferences=tuple(preferences))


def cases(alternatives: int, days: int) -> dict[str, Request]:
    plain = "3 of {kind=KIND, speed>=SPEED} + 2 of {kind=OTHER}"
    preferred = (
        "3 of {kind=KIND, speed>=SPEED, memory>=128 weight 2, shared=true weight -0.5}"
        " + 2 of {kind=OTHER, memory>=64 weight 0.3}"
    )
    rivals = (
        "6 of {kind in (KIND, OTHER), speed>=19 weight 3, memory>=128 weight 1}"
        " + 6 of {kind=KIND, speed>=19 weight 2, shared=true weight 1}"
        " + 4 of {kind=OTHER, speed>=18 weight 2.5}"
    )
    growing = "2 of {kind=KIND, memory>=64 weight 0.5}:(8..64 weight 2) + {kind=OTHER, speed>=19}"
    return {
        "no weights": asked(plain, alternatives, days),
        "attributes": asked(preferred, alternatives, days),
        "attributes and times": mornings(asked(preferred, alternatives, days), days),
        "terms that compete": mornings(asked(rivals, alternatives, days), days),
        "amounts that grow": mornings(asked(growing, alternatives, days), days),
        "never together": mornings(
            asked("40 of {kind=KIND, memory>=128 weight 2}:16", alternatives, days), days
        ),
    }


def measured(request: Request, infos: Infos, free: Free, count: int) -> dict[str, Any]:
    best_s, plans = float("inf"), []
    for _ in range(RUNS):
        begun = time.perf_counter()
        plans = plan(request, infos, free, count=count)
        best_s = min(best_s, time.perf_counter() - begun)
    return {
        "milliseconds": round(best_s * 1_000, 1),
        "plans": len(plans),
        "weight": plans[0].weight if plans else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--resources", type=int, default=1_000)
    parser.add_argument("--alternatives", type=int, default=20)
    parser.add_argument("--bookings", type=int, default=60, help="in each calendar")
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    infos, free = world(
        random.Random(options.seed), options.resources, options.bookings, options.days
    )
    found = {
        f"{name}, {count} plan{'s' if count > 1 else ''}": measured(request, infos, free, count)
        for name, request in cases(options.alternatives, options.days).items()
        for count in (1, 5)
    }
    steps = sum(len(each) for each in free.values())
    print(json.dumps({**vars(options), "free_steps": steps, "cases": found}, indent=2))


if __name__ == "__main__":
    main()
