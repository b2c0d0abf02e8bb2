"""Namespaces of the zygote's own: no lines in its network, no files, no other processes.

Another wall behind `seccomp` and `landlock`, where the host allows it: as root always, for others where they
may make user namespaces (user_namespaces(7)). Workers inherit it. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
from pathlib import Path
from typing import Final, NoReturn

from kalends.agents.sandbox.lockdown import LAST_DESCRIPTOR, close_range

NEW_FILES: Final = 0x0002_0000
NEW_HOST_NAME: Final = 0x0400_0000
NEW_IPC: Final = 0x0800_0000
NEW_USERS: Final = 0x1000_0000
NEW_PROCESSES: Final = 0x2000_0000
NEW_NETWORK: Final = 0x4000_0000
ALL: Final = NEW_FILES | NEW_HOST_NAME | NEW_IPC | NEW_PROCESSES | NEW_NETWORK

READ_ONLY, NO_SET_UID, NO_DEVICES, NO_PROGRAMS = 0x1, 0x2, 0x4, 0x8
RECURSIVE, PRIVATE = 0x4000, 0x4_0000

EMPTY: Final = "/proc"
"""A directory that is there on every host; an empty one is laid over it, in this namespace alone."""

_CAPABILITIES_3: Final = 0x2008_0522
"""_LINUX_CAPABILITY_VERSION_3, see capget(2)."""


def enter() -> bool:
    """Move this process to namespaces of its own, and its children to one of processes.

    Returns whether the host allows it; if not, nothing was changed. Raises `OSError` where it allowed it to
    a child and not to us: the caller must then exit. To be called before root is given up, by a process of
    one thread; then `keep`.
    """
    # Some hosts allow the namespaces and then not what makes them of use: a child finds out.
    child = os.fork()
    if child == 0:
        try:
            _enter()
        except OSError:
            os._exit(1)
        os._exit(0)
    allowed = os.waitpid(child, 0)[1] == 0
    if allowed:
        _enter()
    return allowed


def _enter() -> None:
    user, group, is_root = os.geteuid(), os.getegid(), os.geteuid() == 0
    if _libc.unshare(ALL if is_root else ALL | NEW_USERS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    if not is_root:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _mount(None, "/", None, RECURSIVE | PRIVATE)
    _mount("none", EMPTY, "tmpfs", READ_ONLY | NO_SET_UID | NO_DEVICES | NO_PROGRAMS)
    os.chroot(EMPTY)
    os.chdir("/")
    if not is_root:
        _give_up_capabilities()


def keep() -> int:
    """Make the first process of the namespace of processes, and return its id.

    It is there as long as this one: without it the namespace would end with the first worker. To be called
    after root is given up.
    """
    # The kernel's signal for the end of a parent is lost if the parent ends before it is asked for, and in
    # another namespace the parent's id cannot tell. A pidfd tells at any time.
    parent = os.pidfd_open(os.getpid())
    first = os.fork()
    if first == 0:
        _stay_with(parent)
    os.close(parent)
    return first


def _stay_with(parent: int) -> NoReturn:
    try:
        os.dup2(parent, 0)
        close_range(1, LAST_DESCRIPTOR)
        select.select([0], [], [])
    finally:
        os._exit(0)


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind)]
    if _libc.mount(*texts, ctypes.c_ulong(flags), None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def _give_up_capabilities() -> None:
    """In a user namespace of its own a process has all of them; root gives its up with its user id."""
    nothing = struct.pack("=6I", *[0] * 6)
    if _libc.capset(struct.pack("=Ii", _CAPABILITIES_3, 0), nothing) != 0:
        raise OSError(ctypes.get_errno(), "capset")


_libc = ctypes.CDLL(None, use_errno=True)
