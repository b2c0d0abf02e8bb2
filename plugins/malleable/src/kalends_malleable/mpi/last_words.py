"""The last output of a rank before it ends all others, written so that ``mpiexec`` still shows it.

MPICH's ``mpiexec`` shows nothing more of a rank after its ``MPI_Abort``, not even text that waits in the pipe
of its standard error.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import termios
import time
from typing import Final

READ_S_MAX: Final = 2.0
NAP_S: Final = 0.002


def say_last(text: str) -> None:
    """Write `text` to standard error at once, and return when it has been read, or after two seconds."""
    print(text, file=sys.stderr, end="", flush=True)
    wait_until_read(sys.stderr.fileno(), READ_S_MAX)


def wait_until_read(descriptor: int, within_s: float) -> bool:
    """Return whether a pipe's content was read within that time; True for any other file."""
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return True
    deadline_s = time.monotonic() + within_s
    while unread := _unread(descriptor):
        if time.monotonic() >= deadline_s:
            break
        time.sleep(NAP_S)
    return not unread


def _unread(descriptor: int) -> int:
    """Return the number of bytes in a pipe; both ends show it (pipe(7))."""
    answer = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    return int.from_bytes(answer, sys.byteorder)
