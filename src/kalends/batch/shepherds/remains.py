"""What a shepherd that was killed has left of its attempt: found by its marks, and ended.

The kernel kills the program's first process together with the shepherd. Others are known by their session,
by the folder in their environment, or by their control group. One that is in none of them any more, on a
host without control groups, is not found.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Final

from kalends.batch.shepherds import linux
from kalends.batch.shepherds.control_group import ControlGroup
from kalends.batch.shepherds.facts import Main

PAUSE_S: Final = 0.01
SUSPECT_S: Final = 1.0
"""How long one without an environment is looked at again: in the midst of an exec(2), it has none."""

ENVIRONMENT_BYTES_MAX: Final = 4 * 1024 * 1024
SESSION_FIELD: Final = 3
TICKS_FIELD: Final = 19


def end_remains(folder: str, main: Main | None, group: ControlGroup) -> int:
    """End all that is left of the attempt with its own `folder`; return how many processes that were.

    Returns when they are gone, however long the kernel needs for that.
    """
    group.end()
    mark = b"KALENDS_JOB_DIRECTORY=" + os.fsencode(folder)
    ended: set[int] = set()
    suspected_until_s = time.monotonic() + SUSPECT_S
    while True:
        judged = {pid: _belongs(pid, mark, main) for pid in _processes()}
        found = {pid for pid, belongs in judged.items() if belongs}
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        ended |= found
        suspects = None in judged.values() and time.monotonic() < suspected_until_s
        if not found and not suspects:
            return len(ended)
        time.sleep(PAUSE_S)


def _processes() -> list[int]:
    return [int(each) for each in os.listdir("/proc") if each.isdigit()]


def _belongs(pid: int, mark: bytes, main: Main | None) -> bool | None:
    """Return whether `pid` is of the attempt; None if it may be, and cannot be asked now."""
    fields = linux.stat_fields(pid)
    if fields is None or fields[0] in (b"Z", b"X"):
        return False
    # Only its user's processes that began after the first one can be of it.
    candidate = (
        main is not None and _uid(pid) == main.uid and int(fields[TICKS_FIELD]) >= main.ticks
    )
    # A session keeps its number as long as it has members: only a later one could be another's.
    if main is not None and candidate and int(fields[SESSION_FIELD]) == main.pid:
        return True
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read(ENVIRONMENT_BYTES_MAX)
    except OSError:
        return False
    if mark in environment.split(b"\0"):
        return True
    return None if candidate and not environment else False


def _uid(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None
