"""Output that the machine keeps: its beginning, up to the size that the owner allows.

A batch program writes to the file itself, so what it writes beyond that size is cut off again and again. The
output to a terminal is written by the shepherd, for terminals that attach later. A line behind what is kept
tells its reader that there was more.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Final

from kalends.batch.shepherds.poll_loop import PollLoop

CUT_EVERY_S: Final = 2.0
"""Output may be larger than is kept for so long."""

FLAGS: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def cut_line(bytes_max: int) -> bytes:
    """Return what stands behind the first `bytes_max` bytes of output of which more was written."""
    size = f"{bytes_max // 1_000_000} MB" if bytes_max >= 1_000_000 else f"{bytes_max} bytes"
    return f"\nkalends: only the first {size} of output are kept\n".encode()


class KeptFile:
    """The file at `path`, which is `identity` (device and inode) and is appended to by a program."""

    def __init__(
        self, loop: PollLoop, path: str, identity: tuple[int, int], bytes_max: int
    ) -> None:
        self._loop = loop
        self._path = path
        self._identity = identity
        self._bytes_max = bytes_max
        self._size_max = bytes_max
        loop.later(CUT_EVERY_S, self._cut_again)

    def _cut_again(self) -> None:
        self.cut()
        self._loop.later(CUT_EVERY_S, self._cut_again)

    def cut(self) -> None:
        """Cut off what lies beyond the greatest size; does nothing if that cannot be done now."""
        with contextlib.suppress(OSError):
            if os.stat(self._path, follow_symlinks=False).st_size > self._size_max:
                self._cut()

    def _cut(self) -> None:
        descriptor = os.open(self._path, FLAGS)
        try:
            found = os.fstat(descriptor)
            if stat.S_ISREG(found.st_mode) and (found.st_dev, found.st_ino) == self._identity:
                os.ftruncate(descriptor, self._bytes_max)
                line = cut_line(self._bytes_max)
                os.pwrite(descriptor, line, self._bytes_max)
                self._size_max = self._bytes_max + len(line)
        finally:
            os.close(descriptor)


NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Transcript:
    """The file at `path`, of at most `bytes_max` and the line that says so; 0: of any size."""

    def __init__(self, path: str, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._size = 0
        self._descriptor = -1
        self.file: tuple[int, int] | None = None
        """Its device and inode; None if it could not be made."""
        with contextlib.suppress(OSError):
            self._descriptor = os.open(path, NEW_FILE, 0o600)
            found = os.fstat(self._descriptor)
            self.file = (found.st_dev, found.st_ino)

    def belong_to(self, uid: int) -> None:
        """Let the file be the user's."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.fchown(self._descriptor, uid, -1)

    def add(self, data: bytes) -> None:
        if self._descriptor < 0:
            return
        piece = data[: self._bytes_max - self._size] if self._bytes_max else data
        written = 0
        with contextlib.suppress(OSError):
            written = os.write(self._descriptor, piece)
        self._size += written
        if written < len(data):
            if written == len(piece):
                with contextlib.suppress(OSError):
                    os.write(self._descriptor, cut_line(self._bytes_max))
            os.close(self._descriptor)
            self._descriptor = -1
