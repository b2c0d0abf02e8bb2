"""All processes of an attempt are brought to a stand, and let go on: by their control group, or by signals.

A control group stops all that are in it, at once and for good. Without one, each process gets SIGSTOP, those
above before those below them: a process that has it before it can fork again forks no more (signal(7)), and
what it had forked is found by the next look. Nothing runs when two looks in a row have found the same
processes and no other, all of them stopped: one that had gone in between would still be there as a dead child
of its shepherd.
"""

from __future__ import annotations

import os
import signal
from typing import Final, Protocol

from kalends.batch.shepherds import linux, process_tree
from kalends.batch.shepherds.control_group import ControlGroup

STANDS: Final = frozenset({b"T", b"t", b"Z", b"X", b"x"})
"""States of threads that are stopped, or dead."""

IN_THE_KERNEL: Final = frozenset({b"D"})
"""It waits for a disk, say, or for a child to become another program: it stops when that is over, before it
does anything of its own."""


class Stillness(Protocol):
    """Means to pause the processes of an attempt."""

    def look(self) -> bool:
        """Stop whatever runs; return whether nothing does. To be called until that is so; raises `OSError`.

        Also later: somebody may have woken one of them.
        """

    def end(self) -> None:
        """Let all go on that were stopped; raises `OSError`."""


def stillness_of(group: ControlGroup) -> Stillness:
    """Return the surest way for the descendants of this process, which are in `group` if there is any."""
    return FrozenGroup(group) if group else StoppedProcesses(os.getpid())


class FrozenGroup:
    """By the kernel."""

    def __init__(self, group: ControlGroup) -> None:
        self._group = group

    def look(self) -> bool:
        self._group.freeze()
        return self._group.frozen

    def end(self) -> None:
        self._group.thaw()


class StoppedProcesses:
    """One by one; those that their user had stopped stay as they were."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._sent: set[int] = set()
        """Processes that were told to stop."""
        self._before: set[int] | None = None
        """The processes found by the last look, if none of them was running."""

    def look(self) -> bool:
        found, ahead, still = set[int](), [self._pid], True
        for parent in ahead:
            for each in linux.children(parent):
                found.add(each)
                if not linux.thread_states(each) <= STANDS:
                    self._sent.add(each)
                    process_tree.send(each, signal.SIGSTOP)
                # A shell that ran yet would notice that its command is stopped: those below it come later.
                if self._stands(each):
                    ahead.append(each)
                else:
                    still = False
        before, self._before = self._before, found if still else None
        return still and before == self._before

    def end(self) -> None:
        # A shell that saw its own command stopped would believe that its user had done that.
        for each in reversed(process_tree.tree(self._pid)):
            if each in self._sent:
                process_tree.send(each, signal.SIGCONT)
        self._sent.clear()
        self._before = None

    def _stands(self, pid: int) -> bool:
        states = linux.thread_states(pid)
        return states <= (STANDS | IN_THE_KERNEL if pid in self._sent else STANDS)
