"""The fork that becomes the program: how a shepherd makes it, hears of it, and lets it go on.

It is forked before its shepherd does anything else that takes memory, for what a process writes to before
a fork it pays for twice. It gets ready meanwhile, and waits for leave; it ends if it never gets any.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from kalends.batch.shepherds import program
from kalends.batch.shepherds.control_group import ControlGroup
from kalends.batch.shepherds.folders import Folders
from kalends.batch.shepherds.order import JobOrder
from kalends.batch.shepherds.streams import Streams


class FirstProcess(NamedTuple):
    """Process `pid`; descriptors that tell of its end (pidfd_open(2)), what it reports, and give it leave."""

    pid: int
    ended: int
    report: int
    leave: int

    def let_go_on(self) -> None:
        """Let it become the program; it may have been killed while it waited."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.leave, b"g")
        os.close(self.leave)


def fork_program(
    order: JobOrder, folders: Folders, group: ControlGroup, streams: Streams | None
) -> FirstProcess:
    """Fork it; raises `OSError` if this machine has no room for it."""
    report, theirs = os.pipe()
    waiting, leave = os.pipe()
    me = os.getpid()
    group.make(order.processes_max, order.memory_bytes_max)
    pid = os.fork()
    if pid == 0:
        wires = program.Wires(theirs, waiting, *(streams[2:] if streams else (-1, -1)))
        program.become(order, folders, group, me, wires)
    os.close(theirs)
    os.close(waiting)
    if streams:
        streams.close_theirs()
    return FirstProcess(pid, os.pidfd_open(pid), report, leave)
