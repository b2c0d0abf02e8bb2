"""The processes below a process, as Linux tells them (proc(5))."""

from __future__ import annotations

import contextlib
import os


def descendants(pid: int) -> dict[int, int]:
    """All processes that stem from `pid`, each with its parent; those that end meanwhile may be missing.

    Every process's own word about its parent is read. The kernel's lists of children would be shorter
    to read, but they may leave out a child that lives on when one beside it ends (proc_pid_task(5)).
    """
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
            parents[int(name)] = int(stat.read().rpartition(b")")[2].split()[1])
    below: set[int] = set()
    while more := {each for each, parent in parents.items() if parent in below | {pid}} - below:
        below |= more
    return {each: parents[each] for each in below}
