"""Implementations of a job, read from a TOML file: their needs, nodes, run times and programs.

Run times are a duration, a table by nodes, or a formula in the language of agents (docs/agent-language.md),
which is evaluated here, in the sandbox if there is one. The broker gets a table in any case, and a formula
that fails is reported before anything is sent.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from kalends.agents.runs import ScriptRun
from kalends.client.inputs.machine_requirements import attributes_in
from kalends.client.trials.engines import engine_here
from kalends.core import limits
from kalends.core.durations import parse_duration
from kalends.core.errors import InvalidInput
from kalends.core.implementations import Implementation
from kalends.core.jobs import JobRequest

SLACK: Final = 1.2
"""Default ratio of the limit to the expected run time."""

FORMULA_CHARS_MAX: Final = 2_000

_SEVERAL: Final = 'write nodes = 8, nodes = [2, 4, 8], or nodes = "2-8"'


class _DescribedWay(msgspec.Struct, forbid_unknown_fields=True):
    """One of ``[[implementations]]``."""

    name: str
    needs: str = ""
    nodes: int | list[int] | str = 0
    run_time: str | dict[str, str] = ""
    formula: Annotated[str, Meta(max_length=FORMULA_CHARS_MAX)] = ""
    speed: str = ""
    command: list[str] = []
    script: str = ""


class _ImplementationFile(msgspec.Struct, forbid_unknown_fields=True):
    implementations: Annotated[
        list[_DescribedWay], Meta(min_length=1, max_length=limits.IMPLEMENTATIONS_MAX)
    ]
    slack: Annotated[float, Meta(ge=1, le=100)] = SLACK


async def implementations_in(text: str) -> tuple[Implementation, ...]:
    """Read the text of a file of implementations; raises `InvalidInput` with the place in `where`."""
    try:
        file = msgspec.convert(tomllib.loads(text), _ImplementationFile)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as error:
        raise InvalidInput(
            f"the file is not TOML: {error}",
            where="implementations",
            remedy="docs/federation.md shows such a file",
        ) from error
    found = []
    for number, each in enumerate(file.implementations):
        where = f"implementations[{number}]"
        run_times = await _run_times(each, where)
        sizes = sorted(run_times)
        data = {
            "name": each.name,
            "sizes": sizes,
            "limits_s": [math.ceil(run_times[nodes] * file.slack) for nodes in sizes],
            "speed": each.speed,
            "command": each.command,
            "script": each.script,
        }
        found.append(_implementation(data, each.needs, where))
    return tuple(found)


def job_of(job: JobRequest, implementations: tuple[Implementation, ...]) -> JobRequest:
    """Return `job` with the program, nodes and limit of the implementation with the shortest limit."""
    limit_s, nodes, number = min(
        (limit_s, nodes, number)
        for number, each in enumerate(implementations)
        for nodes, limit_s in each.table().items()
    )
    made = implementations[number].of(job, nodes, limit_s)
    return msgspec.structs.replace(made, implementation="")


def _implementation(data: Mapping[str, Any], needs: str, where: str) -> Implementation:
    try:
        made = msgspec.convert(data, Implementation)
    except msgspec.ValidationError as error:
        raise InvalidInput(
            str(error), where=where, remedy="docs/federation.md shows such a file"
        ) from error
    try:
        attributes = attributes_in(needs, f"{where}.needs") if needs else ()
    except InvalidInput as error:
        error.where = f"{where}.needs"
        raise
    return msgspec.structs.replace(made, needs=attributes)


async def _run_times(described: _DescribedWay, where: str) -> dict[int, float]:
    """Return the expected run time in seconds on each number of nodes."""
    if bool(described.run_time) == bool(described.formula):
        raise InvalidInput(
            "both a run time and a formula" if described.formula else "the run time is missing",
            where=f"{where}.run_time",
            remedy='write either run_time = "2h", or formula = "7200 / nodes + 60"',
        )
    if isinstance(described.run_time, dict):
        return {
            _number(nodes, f"{where}.run_time"): float(
                parse_duration(length, where=f"{where}.run_time")
            )
            for nodes, length in described.run_time.items()
        }
    nodes = _nodes(described.nodes or 1, f"{where}.nodes")
    if described.run_time:
        length_s = parse_duration(described.run_time, where=f"{where}.run_time")
        return dict.fromkeys(nodes, float(length_s))
    return await _evaluated(described.formula, nodes, f"{where}.formula")


async def _evaluated(formula: str, nodes: list[int], where: str) -> dict[int, float]:
    """Return the value of a formula for each number of `nodes`; raises `InvalidInput`."""
    # An entry of the language takes two arguments; the numbers are the first.
    source = f"def choose(view, request):\n    return [({formula}) for nodes in view]\n"
    async with engine_here() as here:
        outcome = await here.engine.run(ScriptRun("", source, "choose", (nodes, None)))
    remedy = "write seconds by nodes in the language of agents, e.g. 7200 / nodes + 60"
    if outcome.code != "ok":
        detail = outcome.detail or outcome.code
        raise InvalidInput(f"the formula cannot be evaluated: {detail}", where=where, remedy=remedy)
    answer = outcome.answer
    if not (
        isinstance(answer, list)
        and len(answer) == len(nodes)
        and all(
            isinstance(each, int | float)
            and not isinstance(each, bool)
            and 0 < each <= limits.DURATION_S_MAX
            for each in answer
        )
    ):
        raise InvalidInput(
            "the value of the formula is not a time in seconds", where=where, remedy=remedy
        )
    return dict(zip(nodes, map(float, answer), strict=True))


def _nodes(said: int | list[int] | str, where: str) -> list[int]:
    """Read numbers of nodes: one, a list, or a range such as ``2-8``."""
    if isinstance(said, int):
        found = [said]
    elif isinstance(said, list):
        found = sorted(set(said))
    else:
        first, dash, last = said.partition("-")
        begin, end = _number(first, where), _number(last if dash else first, where)
        if end - begin >= limits.JOB_SIZES_MAX:
            raise InvalidInput(
                f"more than {limits.JOB_SIZES_MAX} numbers",
                where=where,
                remedy="list only some of them",
            )
        found = list(range(begin, end + 1))
    if not found or len(found) > limits.JOB_SIZES_MAX or found[0] < 1:
        raise InvalidInput(
            f"{said!r} is not a list of numbers of nodes", where=where, remedy=_SEVERAL
        )
    return found


def _number(text: str, where: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text)):
        raise InvalidInput(f"{text!r} is not a number of nodes", where=where, remedy=_SEVERAL)
    return int(text)
