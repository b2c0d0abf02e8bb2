"""Verdicts on jobs whose worker ended without a result."""

from __future__ import annotations

import os
import signal
from typing import Final, NamedTuple

from kalends.agents.sandbox import worker
from kalends.core.scripts import RunCode


class RunVerdict(NamedTuple):
    code: RunCode
    detail: str


_NO_TIME: Final = RunVerdict("limit-cpu", "the script used up its processor time")

_BY_SIGNAL: Final[dict[int, RunVerdict]] = {
    signal.SIGSYS: RunVerdict(
        "policy-violation", "the script left its language and made a forbidden system call"
    ),
    signal.SIGPROF: _NO_TIME,
    signal.SIGXCPU: _NO_TIME,
    signal.SIGKILL: RunVerdict("killed", "the worker was killed from outside; try again"),
}

_BY_EXIT: Final[dict[int, RunVerdict]] = {
    worker.EXIT_NO_MEMORY: RunVerdict("limit-memory", "the script used up its memory"),
    worker.EXIT_UNABLE: RunVerdict(
        "killed", "the worker could not lock itself down; nothing was run"
    ),
}


def verdict(status: int, cpu_us: int, cpu_us_max: float) -> RunVerdict:
    """Return the verdict on a wait status (see wait(2)) of a worker that ended without a result.

    Whoever has used more than `cpu_us_max` has used up its time, whatever ended it: that is nobody else's
    fault, and not tried again.
    """
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        said = _BY_EXIT.get(code, RunVerdict("crash", f"the interpreter exited with code {code}"))
    else:
        said = _BY_SIGNAL.get(-code, RunVerdict("crash", f"the interpreter died of {_name(-code)}"))
    return _NO_TIME if said.code == "killed" and cpu_us > cpu_us_max else said


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
