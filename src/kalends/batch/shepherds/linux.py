"""Features of Linux alone: process names that are never used again, and families of processes."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import time
from typing import Final

PR_SET_PDEATHSIG: Final = 1
PR_SET_NAME: Final = 15
PR_SET_CHILD_SUBREAPER: Final = 36

PROC_BYTES_MAX: Final = 64 * 1024
DESCRIPTORS_MAX: Final = os.sysconf("SC_OPEN_MAX")

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_PRCTL: Final = _LIBC.prctl
_LIBC.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
_PRCTL.argtypes = (ctypes.c_int, ctypes.c_void_p, *[ctypes.c_ulong] * 3)


def prctl(option: int, value: int | bytes) -> None:
    """Call prctl(2); raises `OSError`."""
    if _PRCTL(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends. A setuid clears it: set it again then."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def trim_memory() -> None:
    """Give back what the C library has free, where it is one that can: no fork need copy it."""
    if hasattr(_LIBC, "malloc_trim"):
        _LIBC.malloc_trim(0)


def default_signal(number: int) -> None:
    """Handle signal `number` as a fresh process does; in a fork, Python's way would cost much more memory."""
    _LIBC.signal(number, None)


def default_signals() -> None:
    """Handle every signal as a fresh process does: what is ignored here stays ignored over an exec."""
    for number in range(1, signal.NSIG):
        # The C library keeps some for itself.
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


@functools.cache
def boot_id() -> str:
    """Return the name of the host's present life."""
    return _read("/proc/sys/kernel/random/boot_id").decode().strip()


def since_boot_s() -> float:
    """Return seconds since the host began, its sleep included; no change of the clock moves them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def start_ticks(pid: int) -> int | None:
    """Return when `pid` began, in ticks since the host did (proc(5), field 22); None if it is not alive."""
    fields = stat_fields(pid)
    return None if fields is None or fields[0] in (b"Z", b"X") else int(fields[19])


def stat_fields(pid: int, thread: int = 0) -> list[bytes] | None:
    """Return the fields of /proc/PID/stat from the third, its state, on; None if there is no such process.

    With `thread` those of one of its threads.
    """
    path = f"/proc/{pid}/task/{thread}/stat" if thread else f"/proc/{pid}/stat"
    try:
        return _read(path).rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def newest_pid() -> int:
    """Return the number that the kernel gave to the last process or thread (proc(5), /proc/loadavg)."""
    return int(_read("/proc/loadavg").split()[-1])


def threads(pid: int) -> list[int]:
    """Return the threads of `pid`; none if it is gone."""
    try:
        return list(map(int, os.listdir(f"/proc/{pid}/task")))
    except (FileNotFoundError, ProcessLookupError):
        return []


def thread_states(pid: int) -> set[bytes]:
    """Return the states of all threads of `pid` (proc(5)); none if it is gone."""
    found = set()
    for thread in threads(pid):
        fields = stat_fields(pid, thread)
        if fields is not None:
            found.add(fields[0])
    return found


def children(pid: int) -> list[int]:
    """Return the children of `pid`, the dead that nobody has waited for among them."""
    found: list[int] = []
    for thread in threads(pid):
        with (
            contextlib.suppress(FileNotFoundError, ProcessLookupError),
            open(f"/proc/{pid}/task/{thread}/children") as file,
        ):
            found += [int(each) for each in file.read().split()]
    return found


def close_all_but(kept: tuple[int, ...]) -> None:
    """Close every descriptor except the standard streams and `kept`, in which -1 is none."""
    below = 2
    for descriptor in sorted(kept):
        if descriptor > below + 1:
            # To closerange, an empty range would be an endless one.
            os.closerange(below + 1, descriptor)
        below = max(below, descriptor)
    os.closerange(below + 1, DESCRIPTORS_MAX)


def _read(path: str) -> bytes:
    """Return a short file of the kernel's: `open` would touch ten times as much memory as this needs."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, PROC_BYTES_MAX)
    finally:
        os.close(descriptor)
