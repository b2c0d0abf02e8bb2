"""Changes of a program's size: what it was asked, what it has answered, and whether its leavers have gone.

What is asked is recorded before the program is asked. What it answers is recorded when those of its
processes have gone that it says it has given up: who reads the answer may give their nodes to others.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from kalends.batch.shepherds import linux, process_tree
from kalends.batch.shepherds.control import Control
from kalends.batch.shepherds.facts import ChangeAnswered, ChangeAsked, Fact
from kalends.batch.shepherds.poll_loop import PollLoop

PAUSE_S: Final = 0.01
"""How often one looks whether the leavers have gone."""

Said = dict[str, Any]


class SizeChanges:
    """The changes of one program, whose lead connects to `listener`.

    `store` records a fact now or raises `ValueError` or `OSError`, `note` records it as soon as it can, and
    `hint` tells the server that there is something to look at, or (above 0) how many ranks the program wants.
    """

    def __init__(
        self,
        loop: PollLoop,
        listener: socket.socket,
        *,
        store: Callable[[Fact], None],
        note: Callable[[Fact], None],
        hint: Callable[[int], object],
    ) -> None:
        self._loop = loop
        self._store, self._note, self._hint = store, note, hint
        self._control = Control(loop, listener, self._answered, wanted=hint)
        self._last: ChangeAsked | None = None
        self._leaving: deque[tuple[ChangeAnswered, frozenset[int]]] = deque()
        """Answers that are not recorded yet, with the processes that are to go before."""

    def ask(self, command: Said) -> Said:
        """Ask for a change, after that has been recorded. An old number changes nothing."""
        change, sizes = _change_in(command), self._control.sizes
        if self._last is None or change.number > self._last.number:
            if sizes and change.to not in sizes:
                listed = ", ".join(map(str, sizes))
                return {"error": f"the program can run on {listed} ranks, not on {change.to}"}
            self._store(change)
            self._last = change
            self._control.ask(change)
        return {"sizes": list(sizes)}

    def withdraw(self, command: Said) -> Said:
        """Take a change back, unless the program has begun with it: it goes on with `to` ranks as before.

        What has begun ends with an answer of the program's, or with the program.
        """
        change = _change_in(command)
        unasked = self._last is None or change.number > self._last.number
        if unasked or self._control.withdraw(change.number):
            self._last = change
            why = f"the change was withdrawn{self._control.trouble}"
            self._note(ChangeAnswered(change.number, 0, 0.0, why, time.time()))
            self._hint(0)
        return {}

    def deny(self, command: Said) -> Said:
        """Tell the program that it does not get the ranks that it wants."""
        self._control.deny(int(command["ranks"]), str(command["why"]))
        return {}

    def _answered(self, answer: ChangeAnswered, left: tuple[int, ...]) -> None:
        self._leaving.append((answer, frozenset(left)))
        if len(self._leaving) == 1:
            self._see_them_go()

    def _see_them_go(self) -> None:
        """Record the answers whose leavers have gone, one after the other."""
        while self._leaving:
            answer, left = self._leaving[0]
            if left and any(_lives(pid) for pid in left & process_tree.descendants(os.getpid())):
                self._loop.later(PAUSE_S, self._see_them_go)
                return
            self._leaving.popleft()
            if self._last is not None and not answer.refused:
                self._keep_to(self._last.cores)
            self._note(answer._replace(at=time.time()))
            self._hint(0)

    def _keep_to(self, cores: tuple[int, ...]) -> None:
        """Let none of the program's processes keep what it gave back."""
        for pid in process_tree.descendants(os.getpid()) if cores else ():
            with contextlib.suppress(OSError):
                if not os.sched_getaffinity(pid) <= set(cores):
                    os.sched_setaffinity(pid, cores)


def _change_in(command: Said) -> ChangeAsked:
    cores = tuple(int(each) for each in command["cores"])
    return ChangeAsked(int(command["number"]), int(command["to"]), cores, time.time())


def _lives(pid: int) -> bool:
    fields = linux.stat_fields(pid)
    return fields is not None and fields[0] not in (b"Z", b"X")
