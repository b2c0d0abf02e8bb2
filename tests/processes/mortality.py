"""Processes that kill themselves before the n-th of their calls of the kernel, whatever that call is.

Python tells a profiler of every call of a function in C. Those of the modules that reach the kernel are
counted: so each step of a process can be its last, and nothing in the product knows of it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from kalends.batch.shepherds import program, shepherd, zygote
from kalends.batch.shepherds.control_group import ControlGroup
from kalends.batch.shepherds.folders import Folders
from kalends.batch.shepherds.order import JobOrder

KERNEL = ("posix", "fcntl", "_socket", "socket", "resource", "_posixsubprocess")
HARMLESS = ("fspath", "fsencode", "getpid", "waitstatus_to_exitcode", "fileno", "WIFSTOPPED")

SHEPHERD, PROGRAM = "DIES_SHEPHERD", "DIES_PROGRAM"
"""Names in an order's environment: before which call that process is to die."""


def die_before(number: int) -> None:
    """Let this process, and no child of it, die by SIGKILL before its call of that number, from 1 on."""
    me, left = os.getpid(), number

    def count(frame: FrameType, event: str, function: Any) -> None:
        nonlocal left
        if event != "c_call" or function.__name__ in HARMLESS:
            return
        home = function.__module__ or type(function.__self__).__module__
        if home in KERNEL and os.getpid() == me:
            left -= 1
            if left <= 0:
                os.kill(me, signal.SIGKILL)

    threading.setprofile(count)
    sys.setprofile(count)


def main(descriptor: int, top: str, groups: str) -> None:
    """Be a zygote that dies as the file ``zygote-dies`` says, once, and shepherds as their orders say."""
    tend, become = shepherd.tend, program.become

    def tend_until(order: JobOrder, folders: Folders, groups: str) -> bool:
        if SHEPHERD in order.environment:
            die_before(int(order.environment[SHEPHERD]))
        return tend(order, folders, groups)

    def become_until(
        order: JobOrder, folders: Folders, group: ControlGroup, parent: int, wires: program.Wires
    ) -> None:
        if PROGRAM in order.environment:
            die_before(int(order.environment[PROGRAM]))
        become(order, folders, group, parent, wires)

    shepherd.tend = tend_until
    program.become = become_until  # type: ignore[assignment]  it does not return either
    plan = Path(top) / "zygote-dies"
    if plan.exists():
        number = int(plan.read_text())
        plan.unlink()
        die_before(number)
    zygote.main(descriptor, top, groups)


def barren(descriptor: int, top: str, groups: str) -> None:
    """Be a zygote on a host that has no room for another process, the first two times."""
    fork, refusals = os.fork, iter(range(2))

    def fork_later() -> int:
        if next(refusals, None) is not None:
            raise BlockingIOError("no room for another process")
        return fork()

    os.fork = fork_later
    zygote.main(descriptor, top, groups)
