"""When a program is warned, asked to end, and killed: pure, in seconds since its shepherd began."""

from __future__ import annotations

import math
import signal
from typing import Final

from kalends.batch.shepherds import facts

AGAIN_S: Final = 1.0
"""How often a kill is repeated while the program's first process is still there."""


class Countdown:
    """The limit of a program, and its way from the first signal to the last.

    The first reason to end it is the one that is told. Asking again can only bring its end nearer.
    """

    def __init__(
        self, limit_s: float, warn_s: float, warning: int, grace_s: float, attach_s: float = 0.0
    ) -> None:
        """With `attach_s` it ends then, unless somebody `came` before."""
        self.kind = facts.EXIT
        self.detail = ""
        self._limit_s = limit_s
        self._warn_s = warn_s
        self._warning = warning
        self._grace_s = grace_s
        self._attach_s = attach_s or math.inf
        self._warned = warn_s <= 0
        self._asked = False
        self._kill_s: float | None = None

    @property
    def under_way(self) -> bool:
        """Whether it is to end, for any reason."""
        return self._kill_s is not None

    def ask(self, ran_s: float, kind: str, detail: str, grace_s: float | None = None) -> None:
        """End it: SIGTERM now, SIGKILL after `grace_s`, as its order says by default."""
        kill_s = ran_s + (self._grace_s if grace_s is None else grace_s)
        if self._kill_s is None:
            self.kind, self.detail, self._kill_s = kind, detail, kill_s
        self._kill_s = min(self._kill_s, kill_s)

    def prolong(self, limit_s: float) -> None:
        """Let the limit be `limit_s` since it began; too late once its end is under way."""
        self._limit_s = limit_s

    def came(self) -> None:
        """Somebody is at the keys of its terminal: it need not end for want of one."""
        self._attach_s = math.inf

    def due(self, ran_s: float) -> tuple[int, ...]:
        """Return the signals to send now to the program's process group."""
        if self._kill_s is None and ran_s >= self._limit_s:
            self.ask(ran_s, facts.LIMIT, f"its {self._limit_s:g} s had passed")
        if self._kill_s is None and ran_s >= self._attach_s:
            waited = f"no terminal was attached within {self._attach_s:g} s"
            self.ask(ran_s, facts.KILLED, waited)
        if self._kill_s is None:
            if self._warned or ran_s < self._limit_s - self._warn_s:
                return ()
            self._warned = True
            return (self._warning,)
        if ran_s >= self._kill_s:
            self._asked = True
            self._kill_s = ran_s + AGAIN_S
            return (signal.SIGKILL,)
        if self._asked:
            return ()
        self._asked = True
        # A stopped program would not hear the first.
        return (signal.SIGTERM, signal.SIGCONT)

    def wait_s(self, ran_s: float) -> float:
        """Return after how many seconds `due` is to be asked again at the latest."""
        if self._kill_s is not None:
            return max(0.0, self._kill_s - ran_s)
        limit_s = self._limit_s - (0.0 if self._warned else self._warn_s)
        return max(0.0, min(limit_s, self._attach_s) - ran_s)
