"""How long checks and runs take, from source and from cached bytecode, and how many fit into a second."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NoReturn

from benchmarks.visits import samples
from benchmarks.visits.figures import spread
from kalends.agents import ready
from kalends.agents.language.answers import copied
from kalends.agents.language.job import perform
from kalends.agents.runs import Engine, RunOutcome, ScriptCheck, ScriptRun
from kalends.agents.sandbox.language_only import LanguageOnly
from kalends.contract import codec

SLOTS: Final = (100, 1_000)
CALLERS: Final = (1, 8, 64)

PAUSE_S: Final = 0.01
"""Between one run or visit and the next, where one is timed: a new worker is ready by then, as it is at
a site that is not busy. How it is without pauses is told by the rates."""


def scripts() -> dict[str, str]:
    return {
        "filter, 20 lines": samples.FILTER,
        "ready:earliest": ready.source("earliest"),
        "ready:tidy": ready.source("tidy"),
    }


async def checks(engine: Engine, count: int) -> dict[str, Any]:
    """Upload checks of one script after another; each source is a new one."""
    times_ms, codes = [], Counter[str]()
    for number in range(count):
        source = _new(samples.FILTER, number)
        began_s = time.perf_counter()
        checked = await engine.check(source, "ada")
        times_ms.append((time.perf_counter() - began_s) * 1e3)
        codes[checked.code] += 1
    return {"codes": dict(codes), **spread(times_ms)._asdict()}


class InProcess(LanguageOnly):
    """The language alone, as in development, but with what is compiled kept as the sandbox keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self._bytecode: dict[str, bytes] = {}

    async def check(self, source: str, user: str) -> ScriptCheck:
        self._bytecode[source] = _performed({"op": "check", "source": source})["bytecode"]
        return ScriptCheck("ok")

    async def run(self, job: ScriptRun) -> RunOutcome:
        if job.source not in self._bytecode:
            return await super().run(job)
        result = _performed(
            {
                "op": "run",
                "source": job.source,
                "code": self._bytecode[job.source],
                "function": job.function,
                "arguments": copied(job.arguments),
                "inbox": [],
                "zones": job.zones,
                "steps_max": 2_000_000,
            }
        )
        return RunOutcome(result["code"], result["answer"])


class _Finished(BaseException):
    """Carries a result out of a script."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__()
        self.result = result


def _performed(job: dict[str, Any]) -> dict[str, Any]:
    def finish(result: dict[str, Any]) -> NoReturn:
        raise _Finished(result)

    try:
        perform(job, finish)
    except _Finished as finished:
        return finished.result


async def visits(engine: Engine, count: int) -> list[dict[str, Any]]:
    """Runs one after another: of sources that are new each time, and of one that was checked."""
    here = samples.calendar("site0/cluster", samples.BOOKINGS)
    rows = []
    for name, source in scripts().items():
        for slots in SLOTS:
            job = samples.choosing(source, here, slots=slots)
            new = [job._replace(source=_new(source, number)) for number in range(count)]
            known = [job] * (2 * count)
            await engine.check(source, job.user)
            await _run_all(engine, known[:4])
            for way, jobs in (("source", new), ("bytecode", known)):
                times_ms, codes = await _run_all(engine, jobs)
                rows.append(
                    {"script": name, "slots": slots, "from": way, "codes": codes}
                    | spread(times_ms)._asdict()
                )
    return rows


def views(count: int) -> list[dict[str, Any]]:
    """What a site does before a run: look into the calendar, make offers, and plain data of both."""
    here = samples.calendar("site0/cluster", samples.BOOKINGS)
    rows = []
    for slots in SLOTS:
        times_ms = []
        for _ in range(count):
            began_s = time.perf_counter()
            job = samples.choosing("", here, slots=slots)
            times_ms.append((time.perf_counter() - began_s) * 1e3)
        packed = len(codec.encode_msgpack(job.arguments))
        rows.append({"slots": slots, "bytes": packed, **spread(times_ms)._asdict()})
    return rows


async def rates(engine: Engine, seconds: float) -> list[dict[str, Any]]:
    """Runs a second of a known script, by so many callers at once, each of them another user."""
    here = samples.calendar("site0/cluster", samples.BOOKINGS)
    rows = []
    for callers in CALLERS:
        jobs = [
            samples.choosing(samples.FILTER, here, slots=100, user=f"user{number}")
            for number in range(callers)
        ]
        await asyncio.gather(*(_run_all(engine, [job]) for job in jobs))
        began_s = time.perf_counter()
        loops = await asyncio.gather(*(_loop(engine, job, began_s + seconds) for job in jobs))
        elapsed_s = time.perf_counter() - began_s
        times_ms = [each for times, _ in loops for each in times]
        codes = sum((codes for _, codes in loops), Counter[str]())
        rows.append(
            {"callers": callers, "runs_per_s": codes["ok"] / elapsed_s, "codes": dict(codes)}
            | spread(times_ms)._asdict()
        )
    return rows


async def _run_all(engine: Engine, jobs: Iterable[ScriptRun]) -> tuple[list[float], dict[str, int]]:
    times_ms, codes = [], Counter[str]()
    for job in jobs:
        began_s = time.perf_counter()
        outcome = await engine.run(job)
        times_ms.append((time.perf_counter() - began_s) * 1e3)
        codes[outcome.code] += 1
        await asyncio.sleep(PAUSE_S)
    return times_ms, dict(codes)


async def _loop(engine: Engine, job: ScriptRun, ends_s: float) -> tuple[list[float], Counter[str]]:
    """Run `job` again and again; only runs that ended "ok" are timed."""
    times_ms, codes = [], Counter[str]()
    while (began_s := time.perf_counter()) < ends_s:
        outcome = await engine.run(job)
        codes[outcome.code] += 1
        if outcome.code == "ok":
            times_ms.append((time.perf_counter() - began_s) * 1e3)
        else:
            await asyncio.sleep(0)
    return times_ms, codes


def _new(source: str, number: int) -> str:
    """The same script as a source that nobody has seen."""
    return f"{source}# {number}\n"
