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


_BY_SIGNAL: Final[dict[int, RunVerdict]] = {
    signal.SIGSYS: RunVerdict(
        "policy-violation", "the script got out of its language and made a forbidden system call"
    ),
    signal.SIGPROF: RunVerdict("limit-cpu", "the script used up its processor time"),
    signal.SIGXCPU: RunVerdict("limit-cpu", "the script used up its processor time"),
    signal.SIGKILL: RunVerdict("killed", "the worker was killed from outside; try again"),
}

_BY_EXIT: Final[dict[int, RunVerdict]] = {
    worker.EXIT_NO_MEMORY: RunVerdict("limit-memory", "the script used up its memory"),
    worker.EXIT_UNABLE: RunVerdict(
        "killed", "the worker could not lock itself down; nothing was run"
    ),
}


def verdict(status: int) -> RunVerdict:
    """Return the verdict on a wait status (see wait(2)) of a worker that ended without a result."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return _BY_EXIT.get(code, RunVerdict("crash", f"the interpreter exited with code {code}"))
    return _BY_SIGNAL.get(-code, RunVerdict("crash", f"the interpreter died of {_name(-code)}"))


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
