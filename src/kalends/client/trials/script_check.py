"""A check of one script: the rules that it breaks, or its cost on sample calendars."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kalends.agents.runs import Engine, Function
from kalends.agents.world.answers import judged
from kalends.client.trials.engines import engine_here
from kalends.client.trials.samples import SLOTS, sample_job
from kalends.core.scripts import ArgumentValue, RunCode, Violation

USER = "you"
"""The user to whom the engine charges runs on this computer."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One call on a sample calendar; `chosen` counts slots, `detail` explains a failure.

    For ``pick``, `slots` and `chosen` count bids.
    """

    function: Function
    slots: int
    code: RunCode
    detail: str
    line: int
    chosen: int
    steps: int
    cpu_us: int
    wall_us: int


class TrialCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check; a script with `violations`, sorted by place, is not run."""

    code: RunCode
    detail: str
    place: str
    functions: tuple[Function, ...] = ()
    violations: tuple[Violation, ...] = ()
    samples: tuple[Sample, ...] = ()


async def check(source: str, arguments: Mapping[str, ArgumentValue]) -> TrialCheck:
    """Check `source`; if it is a script, run it on the samples, with these `arguments`."""
    async with engine_here() as here:
        found = await here.engine.check(source, USER)
        samples = [
            await _sample(here.engine, source, function, slots, arguments)
            for function in found.functions
            for slots in (SLOTS if function == "choose" else SLOTS[:1])
        ]
    return TrialCheck(
        code=found.code,
        detail=found.detail,
        place=here.words,
        functions=found.functions,
        violations=found.violations,
        samples=tuple(samples),
    )


async def _sample(
    engine: Engine,
    source: str,
    function: Function,
    slots: int,
    arguments: Mapping[str, ArgumentValue],
) -> Sample:
    job = sample_job(source, function, slots, arguments)
    outcome = judged(job, await engine.run(job))
    answer = outcome.answer
    shown = job.arguments[2 if function == "recall" else 0]
    return Sample(
        function=function,
        slots=len(shown if function == "pick" else shown["slots"]),
        code=outcome.code,
        detail=outcome.detail,
        line=outcome.line,
        chosen=len(answer) if isinstance(answer, list) else int(isinstance(answer, str)),
        steps=outcome.cost.steps,
        cpu_us=outcome.cost.cpu_us,
        wall_us=outcome.cost.wall_us,
    )
