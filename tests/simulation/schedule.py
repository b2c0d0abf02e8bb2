"""One schedule: a safety phase with every fault, then healing, then everything must come to an end."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Final, NamedTuple

from tests.simulation.histories import Numbers, Recorder
from tests.simulation.kernel import Violation
from tests.simulation.line_oracle import LineOracle
from tests.simulation.workload import CROWD, Size
from tests.simulation.world import Faults, World

FAULTS_MS: Final = 90_000
"""How long faults strike."""

QUIET_MS_MAX: Final = 420_000
"""After healing: the longest late message, hold, inquiry and request, one after the other."""

TOLD_MS: Final = 20_000
"""After that what a hostile site may have a part in has been told to all the others."""

FORGET_MS_MAX: Final = 6 * 3_600_000
"""After that: the end of all slots, and of the pauses between questions to brokers, which grow."""

FILES_EVERY: Final = 10
"""One schedule in so many keeps its sites' stores in files, whose logs get torn."""


CROWD_EVERY: Final = 3
"""In one schedule of so many, many fight over little."""


class Report(NamedTuple):
    """`violation` is "" when every promise was kept."""

    seed: int
    trace_hash: str
    faults: Counter[str]
    violation: str
    events: int
    checks: int
    answers: int
    reserved: int
    simulated_ms: int
    numbers: Numbers
    """What was checked for linearizability."""
    waits: int
    trace: list[str] | None


def run(
    seed: int,
    *,
    size: Size | None = None,
    world_type: type[World] = World,
    keep_trace: bool = False,
    hard: float = 1.0,
    prepare: Callable[[World], None] | None = None,
    faults_ms: int = FAULTS_MS,
    forgets: bool = False,
) -> Report:
    """Run the schedule of `seed`; `prepare` may change the world before it starts.

    With `forgets`, slots must end soon: then no site may keep anything in the end.
    """
    size = size or (CROWD if seed % CROWD_EVERY == 1 else Size(sites=3 + seed % 3))
    world = world_type(seed, size=size, files=seed % FILES_EVERY == 0, keep_trace=keep_trace)
    kernel = world.kernel
    violation = ""
    recorder, oracle = Recorder(), LineOracle({}, settle_ms=2_000)
    try:
        faults = Faults(world, until_ms=faults_ms, hard=hard)
        if prepare is not None:
            prepare(world)
        if not (world.hostile or world.batch or world.limited or world.forgetful):
            # They judge what every site says, and by what all of them say.
            recorder.attach(world)
            oracle.attach(world)
        world.start()
        kernel.run(faults_ms)
        kernel.note("HEAL")
        faults.heal()
        if not kernel.run(faults_ms + QUIET_MS_MAX, world.quiet):
            raise Violation(f"no end: {world.unquiet()}")
        if world.hostile:
            _until_told(world)
        world.auditor.finish(world.honest_sites)
        for each in world.hostile:
            each.told.finish()
        of_judges = chain.from_iterable(judge.finish() for judge in world.judges)
        for complaint_of_one in (*recorder.finish(), *oracle.finish(), *of_judges):
            raise Violation(complaint_of_one)
        if forgets and not kernel.run(kernel.now_ms + FORGET_MS_MAX, world.forgotten):
            raise Violation(f"kept for ever: {world.kept()}")
    except Violation as found:
        violation = str(found)
    except Exception:
        # Whatever the shipped code raises here would have ended a server.
        violation = traceback.format_exc()
    finally:
        world.close()
    if violation:
        kernel.note(f"VIOLATION {violation}")
    rows = world.auditor.rows.values()
    return Report(
        seed=seed,
        trace_hash=kernel.trace_hash,
        faults=kernel.faults,
        violation=violation,
        events=kernel.events,
        checks=world.auditor.checks,
        answers=world.auditor.answers,
        reserved=sum(1 for row in rows if row.state not in ("open", "closed")),
        simulated_ms=kernel.now_ms,
        numbers=recorder.numbers,
        waits=oracle.waits,
        trace=kernel.trace,
    )


def _until_told(world: World) -> None:
    """Let what was decided last be told to all the others.

    A hostile site may let a client go on meanwhile, which then asks for the next thing; that is to be told,
    too.
    """
    kernel, decided = world.kernel, world.auditor.decided
    while True:
        before = decided()
        kernel.run(kernel.now_ms + TOLD_MS)
        if not kernel.run(kernel.now_ms + QUIET_MS_MAX, world.quiet):
            raise Violation(f"no end: {world.unquiet()}")
        if decided() == before:
            return


def complaint(report: Report, climate: str = "") -> str:
    """What a failing test says; `climate` is its name, "" the one in which every fault strikes."""
    option = f" --climate {climate}" if climate else ""
    return (
        f"seed {report.seed}: {report.violation}\n"
        f"replay: python -m tests.simulation.replay {report.seed}{option}"
    )
