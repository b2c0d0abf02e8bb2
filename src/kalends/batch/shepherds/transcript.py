"""All output of a program to its terminal, in a file, for terminals that attach later.

The file is always the beginning of what was said. When it cannot grow, for want of room on the disk or
because it has its greatest size, it is complete up to there, and stays so; a line at its end says why.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

from kalends.batch.shepherds.kept_file import cut_line

FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Transcript:
    """The file at `path`, of at most `bytes_max` and the line that says so; 0: of any size."""

    def __init__(self, path: str, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._size = 0
        self._descriptor = -1
        self.file: tuple[int, int] | None = None
        """Its device and inode; None if it could not be made."""
        with contextlib.suppress(OSError):
            self._descriptor = os.open(path, FLAGS, 0o600)
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
