"""All processes of an attempt: its shepherd's descendants, and how they are brought to an end.

A shepherd is a subreaper (prctl(2)): what has lost its parent becomes its child, however often it has
called setsid(2) or forked. What still forks is first stopped, then killed, so that none gets away.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from typing import Final, NamedTuple

from kalends.batch.shepherds import linux

ROUNDS_MAX: Final = 50
"""Rounds of stopping what is still new, before all that is known is killed and it begins again."""

PAUSE_S_MAX: Final = 0.1


class ResourceUsage(NamedTuple):
    """What ended processes have used, with the children that they had waited for."""

    processes: int
    cpu_s: float
    memory_bytes: int
    """The most that one of them had."""

    def and_of(self, used: resource.struct_rusage) -> ResourceUsage:
        """Return the usage with that of one more process."""
        return ResourceUsage(
            self.processes + 1,
            self.cpu_s + used.ru_utime + used.ru_stime,
            max(self.memory_bytes, used.ru_maxrss * 1024),
        )


NONE: Final = ResourceUsage(0, 0.0, 0)


def end_descendants(pid: int) -> ResourceUsage:
    """Kill all descendants of this process, `pid`, wait until they are gone, and return those that it reaped.

    A process that waits for a disk ends only when the kernel lets it, and so does this call.
    """
    pause_s = 0.001
    usage, left = _reap(NONE)
    while left:
        for each in _stopped(pid):
            send(each, signal.SIGKILL)
        before = usage.processes
        usage, left = _reap(usage)
        if left and usage.processes == before:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
    return usage


def _stopped(pid: int) -> set[int]:
    """Stop the descendants of `pid` until there are no new ones, and return them."""
    known: set[int] = set()
    for _ in range(ROUNDS_MAX):
        new = descendants(pid) - known
        if not new:
            break
        for each in new:
            send(each, signal.SIGSTOP)
        known |= new
    return known


def descendants(pid: int) -> set[int]:
    """Return the processes below `pid`, as far as they hold still."""
    return set(tree(pid))


def tree(pid: int) -> list[int]:
    """Return the same, each behind its parent."""
    found: dict[int, None] = {}
    ahead = [pid]
    for each in ahead:
        below = [child for child in linux.children(each) if child not in found]
        found.update(dict.fromkeys(below))
        ahead += below
    return list(found)


def keep_on(cores: tuple[int, ...], pid: int) -> None:
    """Let every thread of all descendants of `pid` run on these processors and no others."""
    for each in tree(pid):
        for thread in linux.threads(each):
            # It may be gone. Another user's runs where it likes.
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, cores)


def _reap(usage: ResourceUsage) -> tuple[ResourceUsage, bool]:
    """Return `usage` with that of all dead children, and whether any are left."""
    while True:
        try:
            pid, _, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return usage, False
        if pid == 0:
            return usage, True
        usage = usage.and_of(used)


def send(pid: int, number: int) -> None:
    """Send a signal to a process, if that can be."""
    # It may be gone. Another user's, as those of a set-uid program, ends when it wants to.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
