"""What a batch job has written: its file is read while it grows, and only if it is that very file.

A path is the user's: it may lead elsewhere by now. So the file behind it is looked at before it is opened
(O_PATH, open(2)), and must be the one that the program was given, and still its user's.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable
from typing import Final

from kalends.batch.shepherds.facts import Main
from kalends.core.errors import NotAllowed, NotFound

READ_BYTES: Final = 64 * 1024
FOLLOW_S: Final = 0.1


class OutputFile:
    """An open output file; to be closed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, start: int, bytes_max: int = READ_BYTES) -> bytes:
        """Return what stands from `start` on; b"" at the end of what has been written so far."""
        return os.pread(self._descriptor, min(bytes_max, READ_BYTES), max(start, 0))

    @property
    def size(self) -> int:
        """Bytes so far."""
        return os.fstat(self._descriptor).st_size

    async def follow(self, over: Callable[[], bool], start: int = 0) -> AsyncIterator[bytes]:
        """Give what is written from `start` on, piece by piece, until it is `over` and all has been read.

        When the file is emptied, it goes on from its new beginning.
        """
        while True:
            last = over()
            if self.size < start:
                start = 0
            while data := await asyncio.to_thread(self.read, start):
                start += len(data)
                yield data
            if last:
                return
            await asyncio.sleep(FOLLOW_S)

    def close(self) -> None:
        os.close(self._descriptor)


def open_output(path: str, main: Main) -> OutputFile:
    """Open the output at `path` of the program `main`; the last part of the path may be no link.

    Raises `NotFound` when there is none, `NotAllowed` when it is not the file that the program was given.
    """
    try:
        probe = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError):
        raise NotFound(
            f"the output file {path} is not there",
            where="output",
            remedy="it may have been moved, or be out of the service's reach",
        ) from None
    try:
        found = os.fstat(probe)
        same = (found.st_dev, found.st_ino) in main.files
        if not (same and stat.S_ISREG(found.st_mode) and found.st_uid == main.uid):
            raise NotAllowed(
                f"{path} is not the file that the job was given, or is none",
                where="output",
                remedy="read it yourself",
            )
        return OutputFile(os.open(f"/proc/self/fd/{probe}", os.O_RDONLY | os.O_CLOEXEC))
    finally:
        os.close(probe)
