"""The terminal of an interactive job, and those who sit at it.

Its last output is kept, so that whoever attaches sees where the program is; then a short change of size
makes the program draw anew. One is at the keys, the last who asked for them; the others look on. Who comes
back after a lost line gets the keys again if nobody else has had them meanwhile.
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
from kalends.batch.shepherds.kept_file import Transcript
from kalends.batch.shepherds.poll_loop import WRITE, PollLoop
from kalends.batch.shepherds.streams import Streams
from kalends.batch.shepherds.visitors import ATTACHED_MAX, Visitor

HISTORY_BYTES: Final = 64 * 1024
READ_BYTES: Final = 32 * 1024
REDRAW_S: Final = 0.05
"""How long a terminal stays one row smaller: long enough for its program to have looked."""

UNDER_WAY_BYTES_MAX: Final = 1 << 20
"""What a pipe may hold (pipe(7)), and more than a terminal does."""

EXTENT_MAX: Final = 10_000
_WINDOW: Final = struct.Struct("HHHH")


KEYS_BYTES_MAX: Final = 64 * 1024
"""Keys that a program has not read yet; more are dropped."""

END_KEY: Final = b"\x04"
"""What a terminal takes for the end of its input (termios(3), VEOF)."""


class Keyboard:
    """The end of a terminal, or of a pipe, that we write to; `taken` is called when the program took some.

    The program may read late: no call waits for it.
    """

    def __init__(
        self, loop: PollLoop, descriptor: int, taken: Callable[[], None], *, piped: bool
    ) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._taken = taken
        self._piped = piped
        self._keys = bytearray()
        self._ended = False
        self.typed = 0
        """Bytes that have come so far, and 1 for their end. Those that were dropped count, too."""

    @property
    def pending(self) -> int:
        """Bytes that the program has not taken yet."""
        return len(self._keys)

    def type(self, keys: bytes) -> None:
        self.typed += len(keys)
        self._keys += keys[: max(0, KEYS_BYTES_MAX - len(self._keys))]
        self._write()

    def end(self) -> None:
        """Tell the program that nothing more comes."""
        self.typed += 1
        if self._piped:
            self._ended = True
        else:
            self._keys += END_KEY
        self._write()

    def _write(self, ready: int = WRITE) -> None:
        try:
            if self._keys and self._descriptor >= 0:
                del self._keys[: os.write(self._descriptor, self._keys)]
        except BlockingIOError:
            pass
        except OSError:
            # Nobody reads there any more.
            self._close()
        if self._descriptor < 0:
            self._keys.clear()
        elif self._keys:
            self._loop.watch(self._descriptor, self._write, WRITE)
        else:
            self._loop.forget(self._descriptor)
            if self._ended:
                self._close()
        self._taken()

    def _close(self) -> None:
        self._loop.forget(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1


class Terminal:
    """A terminal, or pipes. `came` hears that the keys were taken."""

    def __init__(
        self,
        loop: PollLoop,
        streams: Streams,
        size: tuple[int, int],
        transcript: Transcript,
        *,
        came: Callable[[], None],
    ) -> None:
        self.transcript = transcript
        self.streams = streams
        self._loop = loop
        self._came = came
        self._keyboard = Keyboard(
            loop, streams.writes, self._tell_typed, piped=streams.input != streams.output
        )
        self._history = bytearray()
        self._output_bytes = 0
        self._attached: list[Visitor] = []
        self._at_keys: Visitor | None = None
        self._seat = ""
        """The name given by the visitor who took the keyboard last."""
        self._size = size
        self._set_size(*size)
        loop.watch(streams.reads, self._on_ready)

    def hear(self, visitor: Visitor, kind: bytes, body: bytes) -> None:
        """Take a frame; raises `ValueError` for one that says nothing sensible."""
        if kind == frames.ATTACH:
            self._attach(visitor, frames.object_in(body))
        elif kind == frames.SIZE:
            size = _extent(frames.object_in(body))
            if visitor is self._at_keys:
                self._size = size
                self._restore_size()
        elif kind == frames.KEYS and visitor is self._at_keys:
            self._keyboard.type(body)
        elif kind == frames.END and visitor is self._at_keys:
            self._keyboard.end()

    def leave(self, visitor: Visitor) -> None:
        """Show `visitor` nothing more."""
        if visitor in self._attached:
            self._attached.remove(visitor)
        if visitor is self._at_keys:
            self._at_keys = None
            self._tell_who()

    def drain(self) -> None:
        """Take what the program has said last: as much as was under way, whoever goes on writing."""
        most = self._output_bytes + UNDER_WAY_BYTES_MAX
        while self._output_bytes < most and self._read():
            pass

    def _attach(self, visitor: Visitor, wishes: dict[str, Any]) -> None:
        size = _extent(wishes) if wishes.get("keys") else None
        if visitor not in self._attached:
            if len(self._attached) >= ATTACHED_MAX:
                raise ValueError("the maximum number of terminals are attached to look on")
            self._attached.append(visitor)
            start = self._output_bytes - len(self._history)
            visitor.say(frames.history_frame(start, bytes(self._history)))
        seat = str(wishes.get("seat", ""))
        may = seat == self._seat or not wishes.get("again")
        if size is not None and may and visitor in self._attached:
            self._take_keys(visitor, seat, size)
        self._tell_who()

    def _take_keys(self, visitor: Visitor, seat: str, size: tuple[int, int]) -> None:
        drawn = self._output_bytes > 0 and size == self._size
        self._at_keys, self._seat, self._size = visitor, seat, size
        if drawn:
            # The kernel tells a program of its window only when that changes: then it draws it anew.
            rows, columns = size
            self._set_size(rows - 1 if rows > 1 else 2, columns)
            self._loop.later(REDRAW_S, self._restore_size)
        else:
            self._restore_size()
        self._came()

    def _restore_size(self) -> None:
        self._set_size(*self._size)

    def _set_size(self, rows: int, columns: int) -> None:
        # Pipes have none.
        with contextlib.suppress(OSError):
            window = _WINDOW.pack(rows, columns, 0, 0)
            fcntl.ioctl(self.streams.reads, termios.TIOCSWINSZ, window)

    def _tell_who(self) -> None:
        for each in list(self._attached):
            self._tell(each)

    def _tell_typed(self) -> None:
        if self._at_keys is not None:
            self._tell(self._at_keys)

    def _tell(self, visitor: Visitor) -> None:
        notice = {
            "keys": visitor is self._at_keys,
            "attached": len(self._attached),
            "typed": self._keyboard.typed,
            "pending": self._keyboard.pending,
        }
        visitor.say(frames.json_frame(frames.NOTICE, notice))

    def _on_ready(self, ready: int) -> None:
        self._read()

    def _read(self) -> bool:
        """Read once; return whether there may be more."""
        try:
            data = os.read(self.streams.reads, READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            # The last process that had it has closed it.
            self._loop.forget(self.streams.reads)
            return False
        self._output_bytes += len(data)
        self._history += data
        del self._history[:-HISTORY_BYTES]
        self.transcript.add(data)
        for each in list(self._attached):
            each.say(frames.frame(frames.OUTPUT, data))
        return True


def _extent(wishes: dict[str, Any]) -> tuple[int, int]:
    rows, columns = wishes.get("rows"), wishes.get("columns")
    if not (isinstance(rows, int) and isinstance(columns, int)):
        raise ValueError("a window without a size")
    if not (1 <= rows <= EXTENT_MAX and 1 <= columns <= EXTENT_MAX):
        raise ValueError("a window of no possible size")
    return rows, columns
