"""The end of a process that an owner's own code holds for ever, where no signal reaches it: in C, say.

A thread of the interpreter that needs no Python ends the process then, after it has written to a file where
the code was. A process that is killed from outside in the midst of a decision leaves no such mark: the next
start disables only a class that was really stuck.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
from itertools import takewhile
from pathlib import Path
from typing import IO, Final

from kalends.scheduling.own_line import own_line

HARD_S_MIN: Final = 5.0
HARD_TIMES: Final = 10
"""The process ends when a decision has taken so many times as long as it may."""

MARK_CHARACTERS_MAX: Final = 1 << 20

_FRAME: Final = re.compile(r'  File "(.*)", line (\d+) in (.*)')


def hard_limit_s(most_s: float) -> float:
    return max(HARD_S_MIN, HARD_TIMES * most_s)


def mark_path(store: Path, machine: str) -> Path:
    return store.with_name(f"{store.stem}.{machine.partition('/')[2]}.stuck")


class Watchdog:
    """Ends the process if what runs under it takes longer than `hard_s`; one is on watch at a time.

    `path` is a file of its own for the mark, `policy` the class that decides.
    """

    def __init__(self, path: Path, policy: str, hard_s: float) -> None:
        self._path = path
        self._policy = policy
        self._hard_s = hard_s
        self._file: IO[bytes] | int | None = None
        self.struck = self._last_struck()
        """Why the process had to end before this one, if this very class was to blame."""

    def __enter__(self) -> None:
        if self._file is None:
            self._file = self._begun()
        faulthandler.dump_traceback_later(self._hard_s, exit=True, file=self._file)

    def __exit__(self, *raised: object) -> None:
        faulthandler.cancel_dump_traceback_later()

    def forget(self) -> None:
        """What is to be done about the mark was done."""
        self.struck, self._file = "", None
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _begun(self) -> IO[bytes] | int:
        """Return a new file that names the class; without room for one it is the standard error."""
        try:
            file = open(self._path, "wb", buffering=0, opener=_private)  # noqa: SIM115  # for life
            file.write(f"{self._policy}\n".encode())
        except OSError:
            return 2
        return file

    def _last_struck(self) -> str:
        try:
            with open(self._path, errors="replace") as file:
                policy, _, dump = file.read(MARK_CHARACTERS_MAX).partition("\n")
        except OSError:
            return ""
        if policy != self._policy:
            self.forget()
        if policy != self._policy or not dump:
            return ""
        return (
            f"it did not return within {self._hard_s:.0f} s, and could not be interrupted: the site "
            f"had to end{_place(dump)}"
        )


def _place(dump: str) -> str:
    """Return where the owner's code was, in words: the main thread comes last, its innermost call first."""
    found = [each.groups() for each in map(_FRAME.match, _last_thread(dump)) if each]
    behind = takewhile(
        lambda each: not (each[2] == "ask" and each[0].endswith("watched.py")), found
    )
    at = own_line([(file, int(line)) for file, line, _ in behind][::-1])
    return f" ({at})" if at else ""


def _last_thread(dump: str) -> list[str]:
    return dump.rpartition("\nThread ")[2].splitlines()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
