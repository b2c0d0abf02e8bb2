"""The way in which a fresh process gives up all but one descriptor, memory, and the right to exit.

The order matters: what needs a right comes before that right is given up, and the system call filter
is last. Standard library only, so that any Python can show that the wall holds by itself.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import signal
from typing import Final, NamedTuple

from kalends.agents.sandbox import landlock, seccomp

NICENESS: Final = 10
"""Niceness of a worker next to servers, which have 0."""

PR_SET_PDEATHSIG: Final = 1
READ_IMPLIES_EXEC: Final = 0x0040_0000
PERSONALITY_ASK: Final = 0xFFFF_FFFF
LAST_DESCRIPTOR: Final = 0xFFFF_FFFF


class Origin(NamedTuple):
    """The origin of a worker: `parent`, which it must not outlive, and an open /proc that knows it."""

    parent: int
    proc: int


class Allowance(NamedTuple):
    """Limits of a process: `memory_bytes` beyond its present mappings, `cpu_s` from now on."""

    memory_bytes: int
    cpu_s: float


def lock_down(channel: int, allowance: Allowance, origin: Origin) -> None:
    """Keep `channel`, as descriptor 3, and nothing else; there is no way back.

    Raises `OSError` when the kernel refuses a step: the caller must then exit at once, as it is only
    partly locked down.
    """
    filter_program = seccomp.program_here()
    mapped_bytes = address_space_bytes(origin.proc)
    keep_only(channel)
    die_with(origin.parent)
    os.nice(NICENESS)
    _clear_personality()
    landlock.shut()
    _limit(allowance, mapped_bytes)
    seccomp.install(filter_program)


def keep_only(channel: int) -> None:
    """Move `channel` to descriptor 3 and close every other one; raises `OSError` before Linux 5.9."""
    if channel != seccomp.CHANNEL:
        os.dup2(channel, seccomp.CHANNEL, inheritable=False)
    close_range(0, seccomp.CHANNEL - 1)
    close_range(seccomp.CHANNEL + 1, LAST_DESCRIPTOR)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when the thread that forked it ends; it may have ended."""
    seccomp.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # Zero is a parent in another namespace of processes, which ends with it.
    if os.getppid() not in (parent, 0):
        os._exit(1)


def open_proc() -> int:
    """Return a descriptor of /proc, by which a process without files can still look at itself."""
    return os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def address_space_bytes(proc: int) -> int:
    """Return the mapped bytes of this process, as RLIMIT_AS counts them."""
    statm = os.open("self/statm", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    try:
        return int(os.read(statm, 256).split()[0]) * resource.getpagesize()
    finally:
        os.close(statm)


def _limit(allowance: Allowance, mapped_bytes: int) -> None:
    memory_bytes = mapped_bytes + allowance.memory_bytes
    # One second or more of the kernel's own accounting, in case the timer should fail.
    cpu_s = math.ceil(allowance.cpu_s) + 1
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    for nothing in (
        resource.RLIMIT_CORE,
        resource.RLIMIT_FSIZE,
        resource.RLIMIT_MEMLOCK,
        resource.RLIMIT_NOFILE,
        resource.RLIMIT_NPROC,
    ):
        resource.setrlimit(nothing, (0, 0))
    # By the signal's default action, which no Python code can catch or put off.
    signal.setitimer(signal.ITIMER_PROF, allowance.cpu_s)


def _clear_personality() -> None:
    """Clear the personality by which readable memory is executable on some hosts."""
    personality = _libc.personality(PERSONALITY_ASK)
    if personality & READ_IMPLIES_EXEC:
        _libc.personality(personality & ~READ_IMPLIES_EXEC)


def close_range(first: int, last: int) -> None:
    """Call close_range(2) by its number, the same everywhere, because the C library may be older."""
    if _libc.syscall(_SYS_CLOSE_RANGE, first, last, 0) != 0:
        number = ctypes.get_errno()
        raise seccomp.Unsupported(number, f"close_range (Linux 5.9): {os.strerror(number)}")


_SYS_CLOSE_RANGE: Final = ctypes.c_long(436)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.personality.argtypes = [ctypes.c_ulong]
