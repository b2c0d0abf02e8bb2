"""The jobs of Konuru, Moreira and Naik 1996: Tables 1 and 2, and workloads made of them.

The paper gives times on the fewest and on the most processors only. In between, and down to a single
one, Amdahl's law through both points is taken: T(p) = b + a / p. Times that the table has twice say how
well that does (`amdahl_errors`). Setup and summary are not given; the rows of category I that differ in
nothing but iterations (677 s and 1271 s for 200 and 400 of them, and so on) say that both together take
as long as 28 to 40 iterations: 15 are taken for each. Times are milliseconds here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kalends.scheduling.job import Moldability
from kalends.simulation.malleable import Course, MalleableJob

PROCESSORS: Final = 32
CATEGORIES: Final = ("I", "II", "III")
SIZES: Final = {"I": (1, 2, 4), "II": (4, 8, 12, 16), "III": (8, 12, 16, 20, 24, 28, 32)}
FEWER_SIZES: Final = {"I": (1, 4), "II": (4, 8, 16), "III": (16, 32)}
"""The sizes that the third additional experiment allows."""
SETUP_ITERATIONS: Final = 15
SUMMARY_ITERATIONS: Final = 15
EVERY: Final = 5
COSTS_S: Final = {64: (8, 3), 80: (11, 6), 102: (17, 12), 126: (29, 24)}
"""Reconfiguration and redistribution by problem size, as adopted for simulation below Table 2."""


@dataclass(frozen=True)
class Application:
    """A row of Table 1: times in seconds on the fewest and on the most processors of its category."""

    category: str
    code: str
    size: int
    iterations: int
    slowest_s: int
    fastest_s: int

    @property
    def name(self) -> str:
        return f"{self.code}<{self.size},{self.iterations}>"

    def time_s(self, processors: int) -> float:
        """By Amdahl's law through both times of the table."""
        few, many = SIZES[self.category][0], SIZES[self.category][-1]
        parallel = (self.slowest_s - self.fastest_s) / (1 / few - 1 / many)
        return self.slowest_s + parallel * (1 / processors - 1 / few)

    def course(self, sizes: Sequence[int], *, free_changes: bool) -> Course:
        total_ms = [round(1000 * self.time_s(each)) for each in sizes]
        steps = self.iterations + SETUP_ITERATIONS + SUMMARY_ITERATIONS
        setup_ms = [each * SETUP_ITERATIONS // steps for each in total_ms]
        summary_ms = [each * SUMMARY_ITERATIONS // steps for each in total_ms]
        cost_s, redistribution_s = (0, 0) if free_changes else COSTS_S[self.size]
        return Course(
            sizes=tuple(sizes),
            setup_s=tuple(setup_ms),
            solution_s=tuple(
                each - setup - summary
                for each, setup, summary in zip(total_ms, setup_ms, summary_ms, strict=True)
            ),
            summary_s=tuple(summary_ms),
            iterations=self.iterations,
            every=EVERY,
            reconfiguration_s=1000 * cost_s,
            redistribution_s=1000 * redistribution_s,
        )


def _rows(category: str, code: str, *rows: tuple[int, int, int, int]) -> list[Application]:
    return [Application(category, code, *row) for row in rows]


TABLE_1: Final = (
    *_rows("I", "appsp", (64, 200, 677, 184), (64, 400, 1271, 344)),
    *_rows("I", "appsp", (80, 100, 827, 203), (80, 200, 1419, 361)),
    *_rows("II", "appsp", (64, 5000, 4034, 1327), (80, 2500, 3995, 1221), (102, 1250, 3906, 1176)),
    *_rows("II", "appbt", (64, 1600, 3554, 1045), (80, 800, 3435, 979)),
    *_rows("II", "applu", (64, 4000, 7135, 2169), (80, 2000, 3227, 1036)),
    *_rows("III", "appsp", (64, 40000, 18332, 6324), (80, 20000, 18244, 5348)),
    *_rows("III", "appsp", (102, 10000, 17248, 5195), (126, 5000, 16639, 4746)),
    *_rows("III", "appbt", (64, 12000, 13811, 4132), (80, 6000, 13399, 3961)),
    *_rows("III", "appbt", (102, 3000, 13990, 3702)),
    *_rows("III", "applu", (64, 32000, 29800, 9538), (80, 16000, 13790, 5237)),
    *_rows("III", "applu", (102, 8000, 16990, 5082)),
)


def amdahl_errors() -> dict[str, float]:
    """The law against the table, where a row tells what another one is asked for.

    The time of an iteration by the law of one row, over that by the table in another row of the same
    code and size, minus 1.
    """
    errors = {}
    for one in TABLE_1:
        for other in TABLE_1:
            if (one.code, one.size) != (other.code, other.size) or one.category == other.category:
                continue
            ends = (
                (SIZES[other.category][0], other.slowest_s),
                (SIZES[other.category][-1], other.fastest_s),
            )
            for processors, time_s in ends:
                extra = SETUP_ITERATIONS + SUMMARY_ITERATIONS
                by_law = one.time_s(processors) / (one.iterations + extra)
                told = time_s / (other.iterations + extra)
                errors[f"{one.name} on {processors}, of {other.name}"] = by_law / told - 1
    return errors


@dataclass(frozen=True)
class Mix:
    """A workload: percent of the utilization from each category; what may be changed, and at what cost."""

    percent: tuple[int, int, int]
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: SIZES)
    malleable: tuple[str, ...] = ("II", "III")
    free_changes: bool = False
    table: tuple[Application, ...] = TABLE_1

    @property
    def name(self) -> str:
        return ":".join(f"{each:02d}" for each in self.percent)

    def rates(self, utilization: float) -> list[float]:
        """Arrivals of each row of Table 1 in a millisecond.

        Utilization is the arrival rate times the time on one processor over all processors; within a
        category, all applications arrive at the same rate.
        """
        rates = []
        for application in self.table:
            alike = [each for each in self.table if each.category == application.category]
            work_ms = 1000 * sum(each.time_s(1) for each in alike)
            share = self.percent[CATEGORIES.index(application.category)] / 100
            rates.append(utilization * share * PROCESSORS / work_ms)
        return rates

    def arrivals(self, utilization: float, seed: int) -> Iterator[tuple[float, int]]:
        """When jobs arrive, in milliseconds, and of which row of Table 1: exponential times between.

        The same whatever may be changed and at what cost.
        """
        rates = self.rates(utilization)
        rows = range(len(rates))
        draw = random.Random(seed)
        whole, now = sum(rates), 0.0
        while True:
            for row in draw.choices(rows, rates, k=1000):
                now += draw.expovariate(whole)
                yield now, row

    def jobs(self, utilization: float, seed: int) -> Iterator[MalleableJob]:
        """Jobs without end, as they arrive; `user` is the index of their category."""
        kinds: list[tuple[Course, Moldability, int]] = []
        for each in self.table:
            course = each.course(self.sizes[each.category], free_changes=self.free_changes)
            molds = course.molds(malleable=each.category in self.malleable)
            kinds.append((course, molds, CATEGORIES.index(each.category)))
        for number, (now, row) in enumerate(self.arrivals(utilization, seed), 1):
            course, molds, category = kinds[row]
            yield MalleableJob(
                number,
                int(now),
                course.sizes[0],
                molds.requested_s[0],
                user=category,
                molds=molds,
                course=course,
            )
