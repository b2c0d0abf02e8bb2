"""A check of one script: the rules that it breaks, or its cost on a sample week of a machine, and on bids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kalends.agents.local import HELD_MAX
from kalends.agents.runs import Engine, Function, ScriptRun
from kalends.agents.world.answers import judged
from kalends.agents.world.offers import offers
from kalends.agents.world.views import Asker, choose_arguments, recall_arguments
from kalends.agents.world.visible_calendar import Shown
from kalends.agents.world.zones import clocks_of, zones_of
from kalends.client.trials.engines import engine_here
from kalends.core.resources import ResourceInfo, Slot
from kalends.core.scripts import ArgumentValue, Ask, RunCode, Starts, Violation

SLOTS: Final = (100, 1_000)
"""Numbers of slots offered to the script: a usual visit, and the largest."""

NOW_S: Final = 1_799_740_800
"""Tue 2027-01-12 00:00 in Los Angeles."""

_DAYS: Final = 7
_HOUR_S: Final = 3_600
_DAY_S: Final = 24 * _HOUR_S
_MACHINE: Final = ResourceInfo(
    name="sample/machine",
    capacity=128,
    attributes={"kind": "sample", "memory": 64},
    grain_s=300,
    zone="America/Los_Angeles",
    description="a machine that does not exist",
)


_BIDS: Final = 3


def sample_job(
    source: str, function: Function, slots: int, arguments: Mapping[str, ArgumentValue]
) -> ScriptRun:
    """Return a call of `function` with `slots` slots.

    For ``recall``, with at most as many as are held; for ``pick``, with some bids instead; for ``rank``, with
    some schedules.
    """
    if function == "rank":
        return ScriptRun("you", source, function, (_schedules(), _machine_shown()))
    if function == "pick":
        return ScriptRun("you", source, function, (_bids(),))
    if function == "decide":
        return ScriptRun(
            "you", source, function, _booking(), zones=clocks_of({_MACHINE.zone}, NOW_S, NOW_S)
        )
    shown = {_MACHINE.name: _busy_week()}
    ask = Ask(term=0, resource=_MACHINE.name, length_s=_HOUR_S, units=32)
    starts = Starts(first=NOW_S, last=NOW_S + _DAYS * _DAY_S - _HOUR_S, step_s=300)
    found = offers(shown, [ask], starts, slots)
    call: tuple[object, ...]
    if function == "choose":
        call = choose_arguments(
            "sample", "you", shown, found, [ask], starts, f"{_MACHINE.name}:32",
            arguments, 1, HELD_MAX, NOW_S,
        )  # fmt: skip
    else:
        held = [offer.held_as(number) for number, offer in enumerate(found[:HELD_MAX], start=1)]
        asker = Asker(start=held[0].start, end=held[0].end, units=64)
        call = recall_arguments("sample", shown, held, 1, asker, HELD_MAX, NOW_S)
    zones = zones_of(shown, starts.first, starts.last, arguments)
    return ScriptRun("you", source, function, call, zones=zones)


def _booking() -> tuple[dict[str, object], ...]:
    """Return a booking of tomorrow, as a site passes it to its owner's script."""
    start = NOW_S + _DAY_S
    slot = {"start": start, "end": start + _HOUR_S, "units": 32}
    request = {"user": "you", "groups": ["staff"], "now": NOW_S, "slots": [slot], "replaces": []}
    calendar = {
        "resource": _MACHINE.name, "capacity": _MACHINE.capacity, "grain": _MACHINE.grain_s,
        "zone": _MACHINE.zone, "taken": [],
    }  # fmt: skip
    none = {"near": 0, "week_hours": 0.0}
    return request, calendar, {"user": none, "all": none}


def _schedules() -> list[dict[str, object]]:
    """Return ways to run a job on one machine, as its site passes them to the job's script."""
    return [
        {
            "way": number,
            "implementation": "sample",
            "nodes": 2**number,
            "start": NOW_S + number * _HOUR_S,
            "promised": True,
            "runs": 4 * _HOUR_S >> number,
            "end": NOW_S + number * _HOUR_S + (4 * _HOUR_S >> number),
            "price": 0.0,
        }
        for number in range(_BIDS)
    ]


def _machine_shown() -> dict[str, object]:
    return {
        "machine": _MACHINE.name, "site": "sample", "nodes": _MACHINE.capacity, "load": 50,
        "shared": False, "waiting": 3, "now": NOW_S,
    }  # fmt: skip


def _bids() -> list[dict[str, object]]:
    """Return bids of several sites, the best first, as a broker passes them to a script."""
    return [
        {
            "machine": f"sample{number}/machine",
            "site": f"sample{number}",
            "through": [],
            "nodes": 4,
            "start_by": NOW_S + number * _HOUR_S if number % 2 else None,
            "late_start": NOW_S + number * _HOUR_S,
            "runs": float(_HOUR_S),
            "expected": float(_HOUR_S),
            "implementation": "",
            "preference": 0.0,
            "transport": 0.0,
            "price": 0.0,
            "load": 0,
            "shared": False,
        }
        for number in range(1, _BIDS + 1)
    ]


def _busy_week() -> Shown:
    """Return a week in which half of the machine is taken by day, most of it from ten to twelve."""
    taken, free = [], []
    for day in range(_DAYS):
        midnight = NOW_S + day * _DAY_S
        for begin_h, end_h, units in (
            (0, 8, 0),
            (8, 10, 64),
            (10, 12, 120),
            (12, 18, 64),
            (18, 24, 0),
        ):
            start, end = midnight + begin_h * _HOUR_S, midnight + end_h * _HOUR_S
            free.append((start, end, _MACHINE.capacity - units))
            if units:
                taken.append(Slot(start, end, units, "locked", "you" if begin_h == 10 else ""))
    return Shown(_MACHINE, tuple(free), tuple(taken), "you")


USER = "you"
"""The user to whom the engine charges runs on this computer."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One call on a sample calendar; `chosen` counts slots, `detail` explains a failure.

    For ``pick``, `slots` and `chosen` count bids; for ``rank``, schedules.
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
        slots=len(shown if function in ("pick", "rank") else shown["slots"]),
        code=outcome.code,
        detail=outcome.detail,
        line=outcome.line,
        chosen=len(answer) if isinstance(answer, list) else int(type(answer) in (str, int)),
        steps=outcome.cost.steps,
        cpu_us=outcome.cost.cpu_us,
        wall_us=outcome.cost.wall_us,
    )
