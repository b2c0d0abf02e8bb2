"""Seeded work for one calendar: bookings that all fit, and operations on them.

Everything follows from `Recipe`: the same recipe gives the same work on every machine. Times are
seconds from 0. The bookings fit by construction, so that an engine that refuses one is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, Literal, NamedTuple

import numpy as np

Kind = Literal["capacity", "unit", "queue"]
KINDS: Final[tuple[Kind, ...]] = ("capacity", "unit", "queue")

DAY_S: Final = 86_400
JOB_S: Final = (300, DAY_S)
"""Shortest and longest job of a machine."""
VISIT_S: Final = (300, 4 * 3_600)
"""Shortest and longest booking of an instrument."""
TOUCHING: Final = 0.3
"""The share of an instrument's bookings that begin when the one before ends."""
GAP_S: Final = 1_800
"""The mean of the other gaps."""
WINDOW_S: Final = 4 * 3_600
"""What is listed at once."""
BUSY: Final = 0.85
"""The share of a machine that its jobs ask for."""
JOBS_AT_ONCE: Final = 55
"""On 1,024 nodes: about 110 change points during one job. Grows with the root of the nodes."""
WARM_UP: Final = 10
"""Jobs before time 0, as a multiple of those at once."""
WIDE: Final = (0.30, 0.45)
"""The shares of the nodes that a wide request asks for."""
LONG_GAPS: Final = 20
"""A hard search of an instrument is for a gap as long as one of so many longest ones."""


class Recipe(NamedTuple):
    """What a workload is made from; `operations` of each class follow the first `bookings`."""

    kind: Kind
    seed: int
    nodes: int
    bookings: int
    operations: int


class Operation(NamedTuple):
    """One line of a trace: `word` and its `arguments`, measured under the name `group`."""

    group: str
    word: str
    arguments: tuple[int, ...]


class Placed(NamedTuple):
    """Bookings as columns; the row number is the id."""

    starts: list[int]
    ends: list[int]
    units: list[int]


@dataclass(frozen=True, slots=True)
class Workload:
    """The bookings that are `loaded` first, by id, and the operations then."""

    recipe: Recipe
    placed: Placed
    loaded: list[int]
    operations: list[Operation]

    def booking(self, booking_id: int) -> tuple[int, int, int, int]:
        """Id, start, end and units, as a trace writes them."""
        placed = self.placed
        return (
            booking_id,
            placed.starts[booking_id],
            placed.ends[booking_id],
            placed.units[booking_id],
        )


def make(recipe: Recipe) -> Workload:
    """The workload of `recipe`, always the same."""
    random = np.random.default_rng([KINDS.index(recipe.kind), *recipe[1:]])
    if recipe.kind == "queue":
        return _queue(recipe, random)
    spare = min(max(recipe.bookings // 10, 8), 2_000)
    if recipe.kind == "capacity":
        placed = _machine(random, recipe.bookings + spare, recipe.nodes)
    else:
        placed = _instrument(random, recipe.bookings + spare)
    shuffled = random.permutation(recipe.bookings + spare).tolist()
    inside, outside = shuffled[spare:], shuffled[:spare]
    loaded = sorted(inside)
    questions = _machine_questions if recipe.kind == "capacity" else _instrument_questions
    makers = questions(random, recipe, placed, loaded)
    changes = _changes(random, placed, inside, outside)
    groups = [*makers, "add", "rem", "state"]
    order = random.permutation(len(groups) * recipe.operations) % len(groups)
    operations = [
        makers[groups[at]]() if groups[at] in makers else changes(groups[at])
        for at in order.tolist()
    ]
    return Workload(recipe, placed, loaded, operations)


def log_uniform(random: np.random.Generator, low: int, high: int, count: int) -> list[int]:
    """`count` whole numbers from `low` to `high`, as many between 1 and 10 as between 10 and 100."""
    return np.exp(random.uniform(math.log(low), math.log(high + 1), count)).astype(int).tolist()


def units_max(nodes: int) -> int:
    """The widest small job: jobs up to it keep `BUSY` of the nodes busy."""
    mean = BUSY * nodes / _at_once(nodes)
    widest = min(2, nodes)
    while widest < nodes and (widest - 1) / math.log(widest) < mean:
        widest += 1
    return widest


def _at_once(nodes: int) -> float:
    return JOBS_AT_ONCE * math.sqrt(nodes / 1_024)


def _machine(random: np.random.Generator, count: int, nodes: int) -> Placed:
    """Jobs that come at random times and start in turn, as soon as their nodes are free.

    Time 0 is when the machine has been at work for a while: what runs then is cut off there.
    """
    before = int(WARM_UP * _at_once(nodes)) + 1
    lengths = log_uniform(random, *JOB_S, before + count)
    units = log_uniform(random, 1, units_max(nodes), before + count)
    horizon_s = sum(lengths) / _at_once(nodes)
    arrivals = np.sort(random.uniform(0, horizon_s, before + count)).astype(int).tolist()
    starts = _starts_in_turn(arrivals, lengths, units, nodes)
    zero = starts[before]
    rows = [
        (max(0, start - zero), start + length_s - zero, width)
        for start, length_s, width in zip(starts, lengths, units, strict=True)
        if start + length_s > zero
    ]
    kept = rows[:count]
    return Placed(*(list(column) for column in zip(*kept, strict=True)))


def _starts_in_turn(
    arrivals: list[int], lengths: list[int], units: list[int], nodes: int
) -> list[int]:
    """Nobody starts before whoever came earlier, so that what fits at its start fits to its end."""
    starts: list[int] = []
    running: list[tuple[int, int]] = []
    used = now = 0
    for arrival, length_s, width in zip(arrivals, lengths, units, strict=True):
        now = max(now, arrival)
        while running and (running[0][0] <= now or used + width > nodes):
            end, released = heappop(running)
            used -= released
            now = max(now, end)
        heappush(running, (now + length_s, width))
        used += width
        starts.append(now)
    return starts


def _instrument(random: np.random.Generator, count: int) -> Placed:
    """One visit after the other, some with a gap between."""
    lengths = np.array(log_uniform(random, *VISIT_S, count))
    gaps = random.exponential(GAP_S, count).astype(int)
    gaps[random.uniform(size=count) < TOUCHING] = 0
    ends = np.cumsum(lengths + gaps)
    return Placed((ends - lengths).tolist(), ends.tolist(), [1] * count)


def _changes(
    random: np.random.Generator, placed: Placed, inside: list[int], outside: list[int]
) -> Callable[[str], Operation]:
    """Adding and removing take turns, so that the number of bookings stays."""
    adds = True

    def change(group: str) -> Operation:
        nonlocal adds
        if group == "state":
            return Operation("state", "state", (inside[int(random.integers(len(inside)))],))
        source, target = (outside, inside) if adds else (inside, outside)
        at = int(random.integers(len(source)))
        source[at], source[-1] = source[-1], source[at]
        chosen = source.pop()
        target.append(chosen)
        adds = not adds
        if target is outside:
            return Operation("rem", "rem", (chosen,))
        start, end, units = placed.starts[chosen], placed.ends[chosen], placed.units[chosen]
        return Operation("add", "add", (chosen, start, end, units))

    return change


def _machine_questions(
    random: np.random.Generator, recipe: Recipe, placed: Placed, _: list[int]
) -> dict[str, Callable[[], Operation]]:
    last_start, last_end = max(placed.starts), max(placed.ends)
    not_after = last_end + 40 * DAY_S
    low, high = (max(1, int(share * recipe.nodes)) for share in WIDE)
    narrow = units_max(recipe.nodes)
    lengths, widths, wide = (
        _stream(lambda: log_uniform(random, *JOB_S, 1_000)),
        _stream(lambda: log_uniform(random, 1, narrow, 1_000)),
        _stream(lambda: random.integers(low, high, 1_000, endpoint=True).tolist()),
    )
    times = _stream(lambda: random.integers(0, last_start + 1, 1_000).tolist())

    def smallest(group: str, length_s: int) -> Operation:
        start = min(next(times), max(0, last_end - length_s))
        return Operation(group, "min", (start, start + length_s))

    def fit(group: str, units: int, not_before: int) -> Operation:
        return Operation(group, "fit", (units, next(lengths), not_before, not_after))

    def window(group: str) -> Operation:
        start = next(times)
        return Operation(group, group, (start, start + WINDOW_S))

    return {
        "min": lambda: smallest("min", next(lengths)),
        "min-long": lambda: smallest("min-long", last_end // 4),
        "fit-base": lambda: fit("fit-base", next(widths), 0),
        "fit-wide": lambda: fit("fit-wide", next(wide), 0),
        "fit-mid": lambda: fit("fit-mid", next(widths), next(times)),
        "fit-mid-wide": lambda: fit("fit-mid-wide", next(wide), next(times)),
        "steps": lambda: window("steps"),
        "list": lambda: window("list"),
    }


def _instrument_questions(
    random: np.random.Generator, _: Recipe, placed: Placed, loaded: list[int]
) -> dict[str, Callable[[], Operation]]:
    last_start, last_end = max(placed.starts), max(placed.ends)
    not_after = last_end + 40 * DAY_S
    starts = np.array([placed.starts[each] for each in loaded])
    ends = np.array([placed.ends[each] for each in loaded])
    longest = np.sort(starts[1:] - ends[:-1])[-LONG_GAPS:]
    lengths = _stream(lambda: log_uniform(random, *VISIT_S, 1_000))
    hard = _stream(lambda: random.choice(longest, 1_000).tolist())
    times = _stream(lambda: random.integers(0, last_start + 1, 1_000).tolist())

    def fit(group: str, length_s: int, not_before: int) -> Operation:
        return Operation(group, "fit", (1, length_s, not_before, not_after))

    def window(group: str, word: str, length_s: int) -> Operation:
        start = next(times)
        return Operation(group, word, (start, start + length_s))

    return {
        "min": lambda: window("min", "min", next(lengths)),
        "fit-base": lambda: fit("fit-base", next(lengths), 0),
        "fit-hard": lambda: fit("fit-hard", max(1, next(hard)), 0),
        "fit-mid": lambda: fit("fit-mid", next(lengths), next(times)),
        "fit-mid-hard": lambda: fit("fit-mid-hard", max(1, next(hard)), next(times)),
        "list": lambda: window("list", "list", 10 * WINDOW_S),
    }


def _queue(recipe: Recipe, random: np.random.Generator) -> Workload:
    """Jobs up to half of the machine, each planned at its earliest fit from 0 and booked there."""
    count = recipe.operations
    lengths = log_uniform(random, *JOB_S, count)
    units = log_uniform(random, 1, max(1, recipe.nodes // 2), count)
    not_after = sum(lengths)
    plan = [
        Operation("plan", "plan", (number, width, length_s, 0, not_after))
        for number, (width, length_s) in enumerate(zip(units, lengths, strict=True))
    ]
    return Workload(recipe, Placed([], [], []), [], plan)


def _stream(draw: Callable[[], list[int]]) -> Iterator[int]:
    while True:
        yield from draw()
