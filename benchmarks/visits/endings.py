"""How long it takes until a run that fails has a clear error, for every way to fail.

Scripts in their language first; then, in a sandbox of its own, code without any language around it
(`unruly`), which shows what the wall alone ends.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from benchmarks.visits import samples, unruly
from benchmarks.visits.figures import percentile
from kalends.agents.runs import Engine, ScriptRun
from kalends.agents.sandbox import Sandbox, SandboxLimits
from kalends.agents.sandbox.sandbox import Language

SLACK_MS: Final = 50.0
UNRULY: Final = Language("benchmarks.visits.unruly:perform", "benchmarks.visits.unruly:ENGINE")


class Case(NamedTuple):
    name: str
    source: str


def _choosing(body: str) -> str:
    return f"def choose(view, request):\n{body}"


CASES: Final = (
    Case("endless loop", _choosing("    while True:\n        pass\n")),
    Case("endless recursion", _choosing("    return choose(view, request)\n")),
    Case(
        "endless list of lists",
        _choosing("    kept = []\n    while True:\n        kept.append([0] * 100000)\n"),
    ),
    Case(
        "endless search",
        _choosing(
            "    many = list(range(100000))\n"
            "    return [0 for number in range(100000) if -1 in many]\n"
        ),
    ),
    Case("answers too much", _choosing("    return ['x' * 8000] * 100\n")),
    Case("answers a function", _choosing("    return choose\n")),
    Case("raises an error", _choosing("    raise ValueError('nothing here suits')\n")),
    Case("breaks rules", _choosing("    import os\n    return os.listdir('/')\n")),
)


async def measure(limits: SandboxLimits, count: int, waits: int) -> list[dict[str, Any]]:
    """Every way to fail, `count` times; waiting for the wall limit only `waits` times."""
    job = samples.choosing("", samples.calendar("site0/cluster", samples.BOOKINGS), slots=100)
    sandbox = await Sandbox.start(limits)
    try:
        rows = [await _row(sandbox, case, job, limits.cpu_s_max, count) for case in CASES]
    finally:
        await sandbox.close()
    sandbox = await Sandbox.start(limits._replace(suspended_s=0.0), language=UNRULY)
    try:
        for name in unruly.MISDEEDS:
            limit_s, times = (
                (limits.wall_s_max, waits) if name == "wait" else (limits.cpu_s_max, count)
            )
            case = Case(f"no language: {name}", name)
            rows.append(await _row(sandbox, case, job, limit_s, times))
    finally:
        await sandbox.close()
    rows.append(await _too_many(limits, job))
    rows.append(await _used_up(limits, job, count))
    return rows


async def _row(
    engine: Engine, case: Case, job: ScriptRun, limit_s: float, count: int
) -> dict[str, Any]:
    """`count` runs of `case`; its source has been checked before."""
    await engine.check(case.source, "ada")
    ended = [await _ended(engine, job._replace(source=case.source)) for _ in range(count)]
    return figures(case.name, ended, limit_s)


async def _too_many(limits: SandboxLimits, job: ScriptRun) -> dict[str, Any]:
    """More runs of one user than may wait: those that are refused for it."""
    sandbox = await Sandbox.start(limits)
    endless = job._replace(source=CASES[0].source)
    try:
        await sandbox.check(endless.source, endless.user)
        places = limits.running_max + limits.waiting_per_user_max
        tasks = [asyncio.create_task(_ended(sandbox, endless)) for _ in range(places + 10)]
        done, waiting = await asyncio.wait(tasks, timeout=limits.cpu_s_max / 2)
    finally:
        await sandbox.close()
    await asyncio.gather(*waiting)
    refused = [task.result() for task in done if task.result()[0] == "busy"]
    return figures("too many at once", refused, 0.0)


async def _used_up(limits: SandboxLimits, job: ScriptRun, count: int) -> dict[str, Any]:
    """Runs of a user whose processor time of this minute is used up."""
    sandbox = await Sandbox.start(limits._replace(cpu_s_per_minute=0.01))
    endless = job._replace(source=CASES[0].source)
    try:
        await sandbox.check(endless.source, "somebody else")
        # A run is charged when its process has ended, which may be after its outcome is there.
        while (await sandbox.run(endless)).code != "busy":
            continue
        ended = [await _ended(sandbox, endless) for _ in range(count)]
    finally:
        await sandbox.close()
    return figures("processor time used up", ended, 0.0)


async def _ended(engine: Engine, job: ScriptRun) -> tuple[str, float]:
    """The code of a run, and milliseconds until it was there."""
    began_s = time.perf_counter()
    outcome = await engine.run(job)
    return outcome.code, (time.perf_counter() - began_s) * 1e3


def figures(name: str, ended: Sequence[tuple[str, float]], limit_s: float) -> dict[str, Any]:
    """A row of the report: how runs with the limit `limit_s` ended, and after how many milliseconds."""
    times_ms = sorted(ms for _, ms in ended)
    middle_ms = percentile(times_ms, 0.5) if times_ms else None
    within = sum(ms <= limit_s * 1e3 + SLACK_MS for ms in times_ms)
    return {
        "case": name,
        "codes": dict(Counter(code for code, _ in ended)),
        "p50_ms": middle_ms,
        "max_ms": times_ms[-1] if times_ms else None,
        "limit_ms": limit_s * 1e3,
        "within_limit_and_50_ms": within,
        "count": len(ended),
    }
