"""All processes of an attempt: its shepherd's descendants, and how they are brought to an end.

A shepherd is a subreaper (prctl(2)): what has lost its parent becomes its child, however often it has
called setsid(2) or forked. What still forks is first stopped, then killed, so that none gets away.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Final

from kalends.batch.shepherds import linux

ROUNDS_MAX: Final = 50
"""Rounds of stopping what is still new, before all that is known is killed and it begins again."""

PAUSE_S_MAX: Final = 0.1


def end_descendants(pid: int) -> int:
    """Kill all descendants of this process, `pid`, wait until they are gone, and return how many it reaped.

    The kernel may need long for one that waits for a disk: so long does this take.
    """
    reaped, pause_s = 0, 0.001
    while True:
        for each in _stopped(pid):
            _send(each, signal.SIGKILL)
        gone, left = _reap()
        reaped += gone
        if not left:
            return reaped
        if not gone:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)


def _stopped(pid: int) -> set[int]:
    """Stop the descendants of `pid` until there are no new ones, and return them."""
    known: set[int] = set()
    for _ in range(ROUNDS_MAX):
        new = descendants(pid) - known
        if not new:
            break
        for each in new:
            _send(each, signal.SIGSTOP)
        known |= new
    return known


def descendants(pid: int) -> set[int]:
    """Return the processes below `pid`, as far as they hold still."""
    found: set[int] = set()
    ahead = [pid]
    while ahead:
        below = [each for each in linux.children(ahead.pop()) if each not in found]
        found.update(below)
        ahead += below
    return found


def _reap() -> tuple[int, bool]:
    """Return how many dead children there were, and whether any are left."""
    gone = 0
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return gone, False
        if pid == 0:
            return gone, True
        gone += 1


def _send(pid: int, number: int) -> None:
    # It may be gone. Another user's, as those of a set-uid program, ends when it wants to.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
