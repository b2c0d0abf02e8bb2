"""Replays a workload on several engines in turn, and times every operation by itself.

The engines take turns with each part of the workload, another one first each time, so that a slow
moment of the machine meets them all. Nothing is subtracted: a figure holds the call and two readings
of the clock, about 0.1 us. The garbage collector runs between the parts, never inside.
"""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

from benchmarks.calendars.engines import Engine
from benchmarks.calendars.workload import Workload

LOADS_MAX: Final = 5
COPIES: Final = 20
CHANGES: Final = ("add", "rem", "plan")
"""An engine that is stopped in one of these is stopped for good: it would know other bookings."""


class OverBudget(BaseException):
    """The processor time that an engine may use is over; not an `Exception`, so that nothing eats it."""


@dataclass(slots=True)
class Budget:
    """Processor seconds: of one engine for one class of operations, and for loading the bookings."""

    group_s: float = 2.0
    load_s: float = 20.0


@dataclass(slots=True)
class Run:
    """What one engine did with one workload."""

    name: str
    engine: Engine | None
    times_ns: dict[str, list[int]] = field(default_factory=dict)
    answers: dict[int, int] = field(default_factory=dict)
    """By the position of the operation."""
    stopped: dict[str, str] = field(default_factory=dict)
    """Why, by class; under "all" when it did not go on at all."""
    processor_s: float = 0.0
    """What all timed operations used."""

    def note(self, group: str, elapsed_ns: int) -> None:
        self.times_ns.setdefault(group, []).append(elapsed_ns)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An answer unlike the first engine's."""

    engine: str
    position: int
    line: str
    answer: int
    expected: int


def replay(workload: Workload, engines: list[Engine], rounds: int, budget: Budget) -> list[Run]:
    """Every engine's times and answers."""
    runs = [Run(engine.name, engine) for engine in engines]
    count = len(workload.operations)
    borders = [count * number // rounds for number in range(rounds + 1)]
    with _collector_at_rest():
        if workload.loaded:
            for run in runs:
                _load(run, workload, rounds, budget)
        for number in range(rounds):
            turn = number % len(runs)
            for run in runs[turn:] + runs[:turn]:
                if "all" not in run.stopped:
                    _replay_part(run, workload, borders[number], borders[number + 1], budget)
                    gc.collect()
        for run in runs:
            if "all" not in run.stopped:
                _copy(run)
            run.engine = None
    return runs


def mismatches(workload: Workload, runs: list[Run]) -> list[Mismatch]:
    """Where any run's answer is not the first one's."""
    expected = runs[0].answers
    return [
        Mismatch(run.name, position, _line(workload, position), answer, expected[position])
        for run in runs[1:]
        for position, answer in sorted(run.answers.items())
        if position in expected and expected[position] != answer
    ]


def _line(workload: Workload, position: int) -> str:
    operation = workload.operations[position]
    return " ".join([operation.word, *map(str, operation.arguments)])


def _load(run: Run, workload: Workload, rounds: int, budget: Budget) -> None:
    assert run.engine is not None
    times = min(rounds, LOADS_MAX) if workload.recipe.bookings <= 10_000 else 1
    try:
        for _ in range(times):
            load = run.engine.prepare_load(workload)
            gc.collect()
            with _limit(budget.load_s):
                began_ns = time.perf_counter_ns()
                load()
                run.note("load", time.perf_counter_ns() - began_ns)
    except OverBudget:
        run.stopped["all"] = f"loading took more than {budget.load_s:g} s"


def _replay_part(run: Run, workload: Workload, first: int, last: int, budget: Budget) -> None:
    assert run.engine is not None
    clock, prepare, meaning = time.perf_counter_ns, run.engine.prepare, run.engine.meaning
    spent_ns = {group: sum(times) for group, times in run.times_ns.items()}
    group_ns = int(budget.group_s * 1e9)
    began_s = time.process_time()
    group = ""
    try:
        with _limit(10 * budget.group_s):
            for position in range(first, last):
                operation = workload.operations[position]
                group = operation.group
                call = None if group in run.stopped else prepare(operation)
                if call is None:
                    continue
                function, arguments = call
                began_ns = clock()
                returned: Any = function(*arguments)
                elapsed_ns = clock() - began_ns
                run.note(group, elapsed_ns)
                run.answers[position] = meaning(operation, returned)
                spent_ns[group] = spent_ns.get(group, 0) + elapsed_ns
                if spent_ns[group] > group_ns:
                    _stop(run, group, budget.group_s)
                    if "all" in run.stopped:
                        break
    except OverBudget:
        run.stopped["all"] = f"{group} took too long"
    run.processor_s += time.process_time() - began_s


def _stop(run: Run, group: str, seconds: float) -> None:
    done = len(run.times_ns[group])
    run.stopped[group] = f"> {seconds:g} s after {done} operations"
    if group in CHANGES:
        run.stopped["all"] = f"{group} {run.stopped[group]}"


def _copy(run: Run) -> None:
    assert run.engine is not None
    call = run.engine.prepare_copy()
    if call is None or "load" not in run.times_ns:
        return
    for _ in range(COPIES):
        began_ns = time.perf_counter_ns()
        call[0](*call[1])
        run.note("copy", time.perf_counter_ns() - began_ns)


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raises `OverBudget` when the process has computed for so long."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise OverBudget

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
