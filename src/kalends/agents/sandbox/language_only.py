"""Runs scripts inside this process, with the language alone: for development, and never for strangers.

The number of steps bounds how long the event loop stands still; nothing bounds the memory but the
limits on single values, and a hole in the language would be a hole in the host.
"""

from __future__ import annotations

import time
from typing import Any, NoReturn

from kalends.agents.language import ENGINE
from kalends.agents.language.answers import copied
from kalends.agents.language.job import Result, perform
from kalends.agents.runs import RunCost, RunOutcome, ScriptCheck, ScriptRun
from kalends.core.scripts import Violation


class _Finished(BaseException):
    """Carries the result out of the script: no `Exception`, so that nothing on the way catches it."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


class LanguageOnly:
    """An engine (`kalends.agents.runs.Engine`) without a wall."""

    def __init__(self, *, steps_max: int = 2_000_000) -> None:
        self._steps_max = steps_max

    async def check(self, source: str, user: str) -> ScriptCheck:
        """Read `source` here and now. Never raises."""
        result = _performed({"op": "check", "source": source})
        return ScriptCheck(
            code=result["code"],
            violations=violations_in(result),
            functions=tuple(result["functions"]),
            detail=result["detail"],
        )

    async def run(self, job: ScriptRun) -> RunOutcome:
        """Run `job` here and now; the event loop waits. Never raises."""
        began_cpu_us, began_wall_us = _clocks_us()
        result = _performed(
            {
                "op": "run",
                "source": job.source,
                "code": b"",
                "function": job.function,
                "arguments": copied(job.arguments),
                "inbox": copied(job.inbox),
                "zones": job.zones,
                "steps_max": self._steps_max,
            }
        )
        cpu_us, wall_us = _clocks_us()
        return RunOutcome(
            code=result["code"],
            answer=result["answer"],
            sent=tuple(result["sent"]),
            detail=result["detail"],
            line=result["line"],
            violations=violations_in(result),
            cost=RunCost(result["steps"], cpu_us - began_cpu_us, wall_us - began_wall_us),
            engine=ENGINE,
        )

    async def close(self) -> None:
        """Do nothing, because nothing is under way between two calls."""


def violations_in(result: Result) -> tuple[Violation, ...]:
    """Return the violations of a worker's result, as they go on the wire."""
    return tuple(Violation(*violation) for violation in result["violations"])


def _performed(job: dict[str, Any]) -> Result:
    def finish(result: Result) -> NoReturn:
        raise _Finished(result)

    try:
        perform(job, finish)
    except _Finished as finished:
        return finished.result


def _clocks_us() -> tuple[int, int]:
    return time.process_time_ns() // 1_000, time.monotonic_ns() // 1_000
