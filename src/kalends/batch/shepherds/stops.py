"""Stops of a program: the last order, whether the program stands still, and for how long it has.

A stop has a number, above that of the last one. `Stopped` is recorded when nothing of the program runs any
more: who reads it may give its nodes to others. What stands still is looked at again and again, for whoever
may send it signals can wake it. It goes on when it is told to, on the cores that it is told then.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Any, Final

from kalends.batch.shepherds import linux, process_tree
from kalends.batch.shepherds.facts import Fact, NotStopped, Stopped, WentOn
from kalends.batch.shepherds.poll_loop import PollLoop
from kalends.batch.shepherds.stillness import Stillness

PAUSE_S: Final = 0.005
"""How often one looks whether all stand still."""

AGAIN_S: Final = 1.0
"""How often one looks whether they still do."""

STOP_S_MAX: Final = 30.0
"""What does not stand still after so long goes on."""

Said = dict[str, Any]


class Stops:
    """The stops of one program.

    `ready` says whether it is far enough on its way to be stopped, `note` records a fact as soon as that can
    be, and `hint` tells the server that there is something to look at.
    """

    def __init__(
        self,
        loop: PollLoop,
        stillness: Stillness,
        *,
        ready: Callable[[], bool],
        note: Callable[[Fact], None],
        hint: Callable[[], object],
    ) -> None:
        self._loop, self._stillness = loop, stillness
        self._ready, self._note, self._hint = ready, note, hint
        self._number = 0
        self._open = False
        """It was asked to stop, and not to go on since."""
        self._over = False
        """It is to end: nothing stops it any more."""
        self._asked_s = 0.0
        self._stands_since_s: float | None = None
        self._stood_s = 0.0
        self._looks = 0
        """The number of the last row of looks: those before are over."""

    @property
    def stands(self) -> bool:
        return self._stands_since_s is not None

    def stood_s(self, now_s: float) -> float:
        """Return how long it has stood still, by the clock that counts since the host began."""
        since_s = self._stands_since_s
        return self._stood_s + (now_s - since_s if since_s is not None else 0.0)

    def stop(self, command: Said) -> Said:
        """Begin to stop it. An old or repeated number changes nothing."""
        number = _number_in(command)
        if self._over or number < self._number or (number == self._number and not self._open):
            return {}
        news = number > self._number
        self._number = number
        if not self._open:
            self._open, self._asked_s = True, linux.since_boot_s()
            self._looks += 1
            self._look(self._looks)
        elif self.stands:
            if news:
                self._note(Stopped(number, time.time()))
            self._hint()
        return {}

    def go_on(self, command: Said) -> Said:
        """Let it go on after the stop of that number, on these cores. Any other number changes nothing."""
        number, cores = _number_in(command), tuple(int(each) for each in command["cores"])
        if self._over or number != self._number or not self.stands:
            return {}
        if cores:
            process_tree.keep_on(cores, os.getpid())
            # What is done for this job is done on its own processors.
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, cores)
        self._stillness.end()
        self._stand_no_more()
        self._note(WentOn(number, cores, time.time()))
        return {}

    def give_up(self) -> bool:
        """It is to end: let it go on if it is being stopped. Return whether it stands still already.

        Then it stays so: it has no nodes to go on with.
        """
        stood = self.stands
        if self._open and not stood:
            self._let_run()
        self._over = True
        self._stand_no_more()
        return stood

    def _let_run(self) -> None:
        """Processes that cannot be woken are still ended when their time has passed."""
        with contextlib.suppress(OSError):
            self._stillness.end()

    def _stand_no_more(self) -> None:
        self._stood_s = self.stood_s(linux.since_boot_s())
        self._stands_since_s = None
        self._open = False
        self._looks += 1

    def _look(self, row: int) -> None:
        """Stop whatever runs, until nothing does; and again whenever something does."""
        if row != self._looks:
            return
        try:
            still = self._ready() and self._stillness.look()
        except OSError as error:
            self._cannot(f"it could not be stopped: {error}")
            return
        if self.stands:
            self._loop.later(AGAIN_S if still else PAUSE_S, lambda: self._look(row))
        elif still:
            self._stands_since_s = linux.since_boot_s()
            self._note(Stopped(self._number, time.time()))
            self._hint()
            self._loop.later(AGAIN_S, lambda: self._look(row))
        elif linux.since_boot_s() - self._asked_s > STOP_S_MAX:
            self._cannot(f"some of its processes still ran after {STOP_S_MAX:g} s")
        else:
            self._loop.later(PAUSE_S, lambda: self._look(row))

    def _cannot(self, why: str) -> None:
        """Let it go on, and say why; what stands still already, with its nodes gone, stays so."""
        row = self._looks
        if self.stands:
            self._loop.later(AGAIN_S, lambda: self._look(row))
            return
        self._let_run()
        self._stand_no_more()
        self._note(NotStopped(self._number, why, time.time()))
        self._hint()


def _number_in(command: Said) -> int:
    return int(command["number"])
