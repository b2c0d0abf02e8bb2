"""A run of a script: its inputs, its outputs, and the interface between caller and engine.

A run is a pure function of `ScriptRun`: nothing else reaches the script, and only its `RunOutcome` leaves. So
the same job has the same answer wherever and whenever it runs (same engine version); only how a run
*fails* for want of time or memory may depend on the host, and a failed run has no answer at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

from kalends.core.scripts import RunCode, Violation

Function = Literal["choose", "recall", "pick", "decide", "rank"]

ClockTable = tuple[tuple[int, int], ...]
"""Offsets of one time zone, ``(from_s, offset_s)``, ascending; local time is UTC plus the offset."""


class ScriptRun(NamedTuple):
    """Call `function` of `source` with `arguments`: plain data (None, bool, int, float, str, list, dict).

    `inbox` are messages that the script may receive; `zones` the clocks of every time zone that it may
    ask about. `user` pays for it: queues and budgets are per user.
    """

    user: str
    source: str
    function: Function
    arguments: tuple[Any, ...]
    inbox: tuple[Any, ...] = ()
    zones: Mapping[str, ClockTable] = MappingProxyType({})


class RunCost(NamedTuple):
    """The cost of a run: `steps` repeat in every run; processor and wall time (microseconds) do not."""

    steps: int = 0
    cpu_us: int = 0
    wall_us: int = 0


class RunOutcome(NamedTuple):
    """The end of a run; `answer` and `sent` count only if `code` is "ok".

    `detail` is at most 300 characters, printable, and holds nothing but what the script itself said;
    `line` (from 1; 0: unknown) is where in the script it happened.
    """

    code: RunCode
    answer: Any = None
    sent: tuple[Any, ...] = ()
    detail: str = ""
    line: int = 0
    violations: tuple[Violation, ...] = ()
    cost: RunCost = RunCost()
    engine: str = ""
    """Version of whatever ran it, for records: language policy and Python."""


class ScriptCheck(NamedTuple):
    """The result of a check at upload: `functions` that the script defines, or the refusal.

    `code` is "ok", "rejected" (see `violations`), or why it could not be checked now.
    """

    code: RunCode
    violations: tuple[Violation, ...] = ()
    functions: tuple[Function, ...] = ()
    detail: str = ""


class Engine(Protocol):
    """An engine that checks and runs scripts; it never raises for anything that a script does."""

    async def check(self, source: str, user: str) -> ScriptCheck:
        """Check whether this is a script that may run; its body is not run."""

    async def run(self, job: ScriptRun) -> RunOutcome:
        """Run `job` to its end, within the engine's limits."""

    async def close(self) -> None:
        """Stop; jobs under way end as "killed"."""
