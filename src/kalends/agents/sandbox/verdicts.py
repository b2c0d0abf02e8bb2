"""Verdicts on jobs whose worker ended without a result."""

from __future__ import annotations

import os
import signal
from typing import Final, NamedTuple

from kalends.agents.sandbox import worker
from kalends.core.scripts import RunCode


class Verdict(NamedTuple):
    code: RunCode
    detail: str


_BY_SIGNAL: Final[dict[int, Verdict]] = {
    signal.SIGSYS: Verdict(
        "policy-violation", "the script got out of its language and made a forbidden system call"
    ),
    signal.SIGPROF: Verdict("limit-cpu", "the script used up its processor time"),
    signal.SIGXCPU: Verdict("limit-cpu", "the script used up its processor time"),
    signal.SIGKILL: Verdict("killed", "the worker was killed from outside; try again"),
}

_BY_EXIT: Final[dict[int, Verdict]] = {
    worker.EXIT_NO_MEMORY: Verdict("limit-memory", "the script used up its memory"),
    worker.EXIT_UNABLE: Verdict("killed", "the worker could not lock itself down; nothing was run"),
}


def verdict(status: int) -> Verdict:
    """Return the verdict on a wait status (see wait(2)) of a worker that ended without a result."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return _BY_EXIT.get(code, Verdict("crash", f"the interpreter exited with code {code}"))
    return _BY_SIGNAL.get(-code, Verdict("crash", f"the interpreter died of {_name(-code)}"))


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
