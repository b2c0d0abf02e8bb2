"""Keyboard input on its way to a program, which may read it late: no call waits for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from kalends.batch.shepherds.poll_loop import WRITE, PollLoop

KEYS_BYTES_MAX: Final = 64 * 1024
"""Keys that a program has not read yet; more are dropped."""

END_KEY: Final = b"\x04"
"""What a terminal takes for the end of its input (termios(3), VEOF)."""


class Keyboard:
    """The end of a terminal, or of a pipe, that we write to; `taken` is called when the program took some."""

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
