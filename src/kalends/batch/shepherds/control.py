"""Control of a program that can change its size: JSON lines on its own socket.

The program's lead connects to the path in KALENDS_CONTROL. It says ``{"sizes": [1, 2, 4]}``, is told
``{"change": 3, "to": 2, "cores": [0, 1]}``, says ``{"taking": 3}`` before it begins with that, and is told
``{"go": 3}`` or ``{"withdrawn": 3}``. It answers ``{"changed": 3, "ranks": 2, "took_s": 0.01}`` or
``{"refused": 3, "why": "..."}``. ``"left": [...]`` names the processes that it has given up. With
``{"want": 4}`` it asks for a change itself, and may be told ``{"denied": 4, "why": "..."}``. Any of it may be
repeated. The newest change that has not been answered is said again to a lead that connects anew.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any, Final

from kalends.batch.shepherds.facts import ChangeAnswered, ChangeAsked
from kalends.batch.shepherds.poll_loop import PollLoop
from kalends.batch.shepherds.visitors import accepted

LINE_BYTES_MAX: Final = 4096
SIZES_MAX: Final = 64
RANKS_MAX: Final = 10_000_000
LEFT_MAX: Final = 256
TOOK_S_MAX: Final = 1e9
WHY_CHARACTERS_MAX: Final = 500
WANT_S: Final = 1.0
"""The server hears of a wish at most so often."""


class Control:
    """The socket of one program. `answered` and `wanted` are called with what its lead says.

    None of it is believed beyond its form: it is the word of a user's program.
    """

    def __init__(
        self,
        loop: PollLoop,
        listener: socket.socket,
        answered: Callable[[ChangeAnswered, tuple[int, ...]], None],
        wanted: Callable[[int], object],
    ) -> None:
        """Welcome those who come to `listener`."""
        self.sizes: tuple[int, ...] = ()
        self.trouble = ""
        """What was wrong with a line since the last answer to a change."""
        self._answered = answered
        self._wanted = wanted
        self._loop = loop
        self.open: dict[int, ChangeAsked] = {}
        """Changes that the program has not answered, by number."""
        self._taken = 0
        """The last change that it was told to go on with."""
        self._lead: socket.socket | None = None
        self._rest = b""
        self._want: int | None = None
        self._resting = False
        self._listener = listener
        loop.watch(listener.fileno(), self._welcome)

    def ask(self, change: ChangeAsked) -> None:
        """Ask the program for `change`, now or when its lead connects."""
        self.open[change.number] = change
        self._forward()

    def withdraw(self, number: int) -> bool:
        """Ask for that change no more; return whether that is in time: it has not begun with it."""
        if number not in self.open or number == self._taken:
            return False
        del self.open[number]
        self._say({"withdrawn": number})
        return True

    def deny(self, ranks: int, why: str) -> None:
        """Tell the program, if its lead is there, that it does not get so many ranks."""
        self._say({"denied": ranks, "why": why[:WHY_CHARACTERS_MAX]})

    def _forward(self) -> None:
        """Say the newest change that has not been answered; it stands for those before it."""
        if self.open:
            change = self.open[max(self.open)]
            self._say({"change": change.number, "to": change.to, "cores": list(change.cores)})

    def _say(self, what: dict[str, Any]) -> None:
        if self._lead is None:
            return
        line = json.dumps(what).encode() + b"\n"
        try:
            if self._lead.send(line) < len(line):
                self._let_go()
        except OSError:
            self._let_go()

    def _welcome(self, ready: int) -> None:
        lead = accepted(self._listener)
        if lead is not None:
            self._let_go()
            lead.setblocking(False)
            self._lead = lead
            self._loop.watch(lead.fileno(), self._hear)
            self._forward()

    def _let_go(self) -> None:
        if self._lead is not None:
            self._loop.forget(self._lead.fileno())
            self._lead.close()
            self._lead = None
            self._rest = b""

    def _hear(self, ready: int) -> None:
        if self._lead is None:
            return
        try:
            data = self._lead.recv(LINE_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, rest = (self._rest + data).split(b"\n")
        try:
            for line in lines:
                self._take(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            self.trouble = f": a line of its program was wrong ({error!r:.100})"
            self._let_go()
            return
        self._rest = rest
        if not data or len(rest) > LINE_BYTES_MAX:
            self._let_go()

    def _take(self, said: dict[str, Any]) -> None:
        if type(said) is not dict:
            raise ValueError("not an object")
        if "sizes" in said:
            self.sizes = tuple(_whole(each) for each in said["sizes"][:SIZES_MAX])
        elif "want" in said:
            self._want = _whole(said["want"])
            self._hand_on_want()
        elif "taking" in said:
            self._let_take(_whole(said["taking"]))
        elif "changed" in said:
            number, ranks = _whole(said["changed"]), _whole(said["ranks"])
            took_s = _seconds(said.get("took_s", 0.0))
            left = tuple(_whole(each) for each in said.get("left", [])[:LEFT_MAX])
            self._close(ChangeAnswered(number, ranks, took_s, "", 0.0), left)
        elif "refused" in said:
            why = str(said.get("why") or "it did not say why")[:WHY_CHARACTERS_MAX]
            self._close(ChangeAnswered(_whole(said["refused"]), 0, 0.0, why, 0.0), ())

    def _let_take(self, number: int) -> None:
        """Say whether the program may begin with a change: from then on it is not taken back."""
        if number in self.open and number == max(self.open):
            self._taken = number
            self._say({"go": number})
        else:
            self._say({"withdrawn": number})

    def _close(self, answer: ChangeAnswered, left: tuple[int, ...]) -> None:
        """Take the answer to an open change; changes before that one are not waited for any more."""
        if answer.number not in self.open:
            return
        self.open = {each: self.open[each] for each in self.open if each > answer.number}
        self.trouble = ""
        self._answered(answer, left)

    def _hand_on_want(self) -> None:
        if self._want is not None and not self._resting:
            self._resting = True
            self._loop.later(WANT_S, self._rested)
            want, self._want = self._want, None
            self._wanted(want)

    def _rested(self) -> None:
        self._resting = False
        self._hand_on_want()


def _whole(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= RANKS_MAX:
        raise ValueError("not a number of ranks, or of a process")
    return value


def _seconds(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= TOOK_S_MAX:
        raise ValueError("not a time")
    return float(value)
