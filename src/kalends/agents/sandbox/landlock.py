"""Landlock: no file, no TCP, no signal to others, whatever the system call filter lets through.

A second wall behind `seccomp`, where the kernel has it (Linux 5.13; TCP with 6.7, signals with 6.12): see
landlock(7). It needs no rights, and cannot be taken back. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Final

from kalends.agents.sandbox import seccomp

_CREATE_RULESET: Final = ctypes.c_long(444)
_RESTRICT_SELF: Final = ctypes.c_long(446)
"""Numbers of calls, the same on every architecture."""

ASK_VERSION: Final = 1

FILES: Final = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
"""Rights to files that came with each version: execute to make_sym, refer, truncate, ioctl_dev."""
TCP: Final = {4: 0b11}
"""To bind and to connect."""
SCOPES: Final = {6: 0b11}
"""Abstract sockets and signals, of and to processes outside."""


def version() -> int:
    """Return the kernel's version of Landlock; 0 where it has none, or it is switched off."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ASK_VERSION)))


def shut() -> int:
    """Give up all rights that Landlock controls, for ever; return its version, 0 without Landlock.

    Raises `OSError` where the kernel has it and refuses.
    """
    known = version()
    if not known:
        return 0
    handled = struct.pack("=QQQ", *(_bits(kinds, known) for kinds in (FILES, TCP, SCOPES)))
    # A kernel takes fields that it does not know as long as they are zero.
    rules = _libc.syscall(_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0)
    if rules < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset")
    try:
        seccomp.prctl(seccomp.PR_SET_NO_NEW_PRIVS, 1)
        if _libc.syscall(_RESTRICT_SELF, ctypes.c_int(rules), 0) != 0:
            raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    finally:
        os.close(rules)
    return known


def _bits(kinds: dict[int, int], known: int) -> int:
    return sum(bits for since, bits in kinds.items() if since <= known)


_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
