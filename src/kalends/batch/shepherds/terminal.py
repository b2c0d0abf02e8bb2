"""The terminal of an interactive job, and those who sit at it.

Its last output is kept, so that whoever attaches sees where the program is; then a short change of size
makes the program draw anew. One is at the keys, the last who asked for them; the others look on.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios
from collections.abc import Callable
from typing import Any, Final

from kalends.batch.shepherds import frames
from kalends.batch.shepherds.poll_loop import READ, WRITE, PollLoop
from kalends.batch.shepherds.visitors import Visitor

HISTORY_BYTES: Final = 64 * 1024
KEYS_BYTES_MAX: Final = 64 * 1024
"""Keys that a program has not read yet; more are dropped."""

READ_BYTES: Final = 32 * 1024
REDRAW_S: Final = 0.05
"""How long a terminal stays one row smaller: long enough for its program to have looked."""

EXTENT_MAX: Final = 10_000
_WINDOW: Final = struct.Struct("HHHH")


class Terminal:
    """A pseudoterminal; `flooded` is called once its program has written more than `bytes_max`."""

    def __init__(
        self, loop: PollLoop, size: tuple[int, int], bytes_max: int, flooded: Callable[[], None]
    ) -> None:
        """Open it; raises `OSError`. `slave` is the program's end."""
        self._master, self.slave = os.openpty()
        os.set_blocking(self._master, False)
        self._loop = loop
        self._left = bytes_max
        self._flooded = flooded
        self._history = bytearray()
        self._keys = bytearray()
        self._attached: list[Visitor] = []
        self._at_keys: Visitor | None = None
        self._size = size
        self._set_size(*size)
        loop.watch(self._master, self._on_ready)

    def program_has_it(self) -> None:
        """Close our copy of the program's end, so that the end of the last process shows."""
        os.close(self.slave)

    def attach(self, visitor: Visitor, wishes: dict[str, Any]) -> None:
        """Show `visitor` what there was, and all that follows; raises `ValueError` for odd wishes."""
        if visitor not in self._attached:
            self._attached.append(visitor)
            visitor.say(frames.frame(frames.HISTORY, bytes(self._history)))
        if wishes.get("keys"):
            rows, columns = _extent(wishes)
            self._at_keys = visitor
            self._set_size(max(1, rows - 1) if rows > 1 else 2, columns)
            self._size = (rows, columns)
            self._loop.later(REDRAW_S, self._restore_size)
        self._tell_who()

    def leave(self, visitor: Visitor) -> None:
        """Show `visitor` nothing more."""
        if visitor in self._attached:
            self._attached.remove(visitor)
        if visitor is self._at_keys:
            self._at_keys = None
            self._tell_who()

    def type(self, visitor: Visitor, keys: bytes) -> None:
        """Hand `keys` to the program, if they come from the one at the keys."""
        if visitor is self._at_keys:
            self._keys += keys[: KEYS_BYTES_MAX - len(self._keys)]
            self._write()

    def resize(self, visitor: Visitor, wishes: dict[str, Any]) -> None:
        """Take the size of the window of the one at the keys; raises `ValueError` for an odd one."""
        if visitor is self._at_keys:
            self._size = _extent(wishes)
            self._restore_size()

    def drain(self) -> None:
        """Take what the program has said last."""
        while self._read():
            pass

    def _restore_size(self) -> None:
        self._set_size(*self._size)

    def _set_size(self, rows: int, columns: int) -> None:
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, _WINDOW.pack(rows, columns, 0, 0))

    def _tell_who(self) -> None:
        for each in list(self._attached):
            notice = {"keys": each is self._at_keys, "attached": len(self._attached)}
            each.say(frames.json_frame(frames.NOTICE, notice))

    def _on_ready(self, ready: int) -> None:
        if ready & WRITE:
            self._write()
        if ready & ~WRITE:
            self._read()

    def _read(self) -> bool:
        """Read once; return whether there may be more."""
        try:
            data = os.read(self._master, READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            # The last process that had it has closed it.
            self._loop.forget(self._master)
            return False
        self._history += data
        del self._history[:-HISTORY_BYTES]
        for each in list(self._attached):
            each.say(frames.frame(frames.OUTPUT, data))
        if self._left >= 0:
            self._left -= len(data)
            if self._left < 0:
                self._flooded()
        return bool(data)

    def _write(self) -> None:
        try:
            del self._keys[: os.write(self._master, self._keys)]
        except BlockingIOError:
            pass
        except OSError:
            self._keys.clear()
            return
        self._loop.watch(self._master, self._on_ready, READ | WRITE if self._keys else READ)


def _extent(wishes: dict[str, Any]) -> tuple[int, int]:
    rows, columns = wishes.get("rows"), wishes.get("columns")
    if not (isinstance(rows, int) and isinstance(columns, int)):
        raise ValueError("a window without a size")
    if not (1 <= rows <= EXTENT_MAX and 1 <= columns <= EXTENT_MAX):
        raise ValueError("a window of no possible size")
    return rows, columns
