"""Output file of a batch job, read while it grows, and only if it is the same file.

A path is the user's: it may lead elsewhere by now. So the file behind it is looked at before it is opened
(O_PATH, open(2)), and must be the one that the program was given, and still its user's.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from kalends.batch.shepherds.facts import Main
from kalends.core.errors import NotAllowed, NotFound

READ_BYTES_MAX: Final = 64 * 1024


def read_output(path: str, main: Main, start: int, bytes_max: int) -> bytes:
    """Return what the program `main` has written to `path` from `start` on; b"" at the end of it so far.

    The last part of the path may be no link. Raises `NotFound` when there is no such file, `NotAllowed` when
    it is not the one that the program was given.
    """
    descriptor = _opened(path, main)
    try:
        return os.pread(descriptor, min(bytes_max, READ_BYTES_MAX), max(start, 0))
    finally:
        os.close(descriptor)


def _opened(path: str, main: Main) -> int:
    try:
        probe = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError):
        raise NotFound(
            f"the output file {path} does not exist",
            where="output",
            remedy="look for it on the machine: it was moved, or this site cannot read it",
        ) from None
    try:
        found = os.fstat(probe)
        same = (found.st_dev, found.st_ino) in main.files
        if not (same and stat.S_ISREG(found.st_mode) and found.st_uid == main.uid):
            raise NotAllowed(
                f"{path} is not a regular file, or not the one that the job was given",
                where="output",
                remedy="read it yourself",
            )
        return os.open(f"/proc/self/fd/{probe}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(probe)
