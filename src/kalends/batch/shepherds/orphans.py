"""Orphans: processes left by a shepherd that was killed, found by their marks and ended.

The kernel kills the program's first process together with the shepherd. Others are known by their session,
by the folder in their environment, or by their control group. One that is in none of them any more, on a
host without control groups, is not found. One that makes the next and goes is followed by the numbers that
the kernel gives: only where others make processes faster than they can be looked at is it caught by chance.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from enum import Enum, auto
from typing import Final

from kalends.batch.shepherds import linux
from kalends.batch.shepherds.control_group import ControlGroup
from kalends.batch.shepherds.facts import Main

PAUSE_S: Final = 0.01
SUSPECT_S: Final = 10.0
"""How long all are looked at again while one cannot be judged: on a busy host others come and go, too."""

FOLDER_VARIABLE: Final = b"KALENDS_JOB_DIRECTORY="
ENVIRONMENT_BYTES_MAX: Final = 4 * 1024 * 1024
SESSION_FIELD: Final = 3
FLAGS_FIELD: Final = 6
TICKS_FIELD: Final = 19
ENVIRONMENT_END_FIELD: Final = 48

KERNEL_THREAD: Final = 0x00200000


class Verdict(Enum):
    """Finding about a process: whether it belongs to the attempt, is gone, or could not be read."""

    OURS = auto()
    ANOTHERS = auto()
    GONE = auto()
    UNSURE = auto()


def end_orphans(folder: str, main: Main | None, group: ControlGroup) -> int:
    """End all that is left of the attempt with its own `folder`; return how many processes that were.

    Returns when they are gone, however long the kernel needs for that.
    """
    group.end()
    mark = FOLDER_VARIABLE + os.fsencode(folder)
    ended: set[int] = set()
    suspected_until_s = time.monotonic() + SUSPECT_S
    while True:
        judged, followed = _sweep(mark, main, suspected_until_s)
        found = {pid for pid, verdict in judged.items() if verdict is Verdict.OURS}
        ended |= found
        unsure = Verdict.UNSURE in judged.values() or not followed
        if not found and not (unsure and time.monotonic() < suspected_until_s):
            return len(ended)
        time.sleep(PAUSE_S)


def _sweep(mark: bytes, main: Main | None, until_s: float) -> tuple[dict[int, Verdict], bool]:
    """Judge all processes, then those started in the meantime, until there are none.

    Return the verdicts, and whether none can have been missed: a process that ended before it was looked at
    had forked its successor by then, with a later number. There is no certainty when the numbers have begun
    anew, or when others fork faster than this looks.
    """
    newest = linux.newest_pid()
    judged = {pid: _judge(pid, mark, main) for pid in _processes()}
    while (latest := linux.newest_pid()) > newest and time.monotonic() < until_s:
        judged |= {pid: _judge(pid, mark, main) for pid in range(latest, newest, -1)}
        newest = latest
    return judged, latest == newest


def _processes() -> list[int]:
    """Return all, the latest first: one that is about to make the next must be looked at soon."""
    return sorted((int(each) for each in os.listdir("/proc") if each.isdigit()), reverse=True)


def _judge(pid: int, mark: bytes, main: Main | None) -> Verdict:
    """Look at a process, and kill it at once if it is of the attempt: it may be about to make others."""
    verdict = _look(pid, mark, main)
    if verdict is Verdict.OURS:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return verdict


def _look(pid: int, mark: bytes, main: Main | None) -> Verdict:
    fields = linux.stat_fields(pid)
    if fields is None or fields[0] in (b"Z", b"X"):
        return Verdict.GONE
    if int(fields[FLAGS_FIELD]) & KERNEL_THREAD:
        return Verdict.ANOTHERS
    # Only its user's processes that began after the first one can be of it.
    candidate = main is None or (_uid(pid) == main.uid and int(fields[TICKS_FIELD]) >= main.ticks)
    readable = True
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read(ENVIRONMENT_BYTES_MAX).split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return Verdict.GONE
    except OSError:
        readable, environment = False, []
    if mark in environment:
        return Verdict.OURS
    of_another = any(each.startswith(FOLDER_VARIABLE) for each in environment)
    if main is not None and candidate and not of_another and _is_in_session(fields, main):
        return Verdict.OURS
    # In the midst of an exec(2) there is no environment, not even an empty one.
    in_exec = readable and candidate and fields[ENVIRONMENT_END_FIELD] == b"0"
    return Verdict.UNSURE if in_exec else Verdict.ANOTHERS


def _is_in_session(fields: list[bytes], main: Main) -> bool:
    """Whether it is in the session of `main`, and not in a later one that has got the same number.

    A session keeps its number as long as it has members: who has that of `main` now, and is another, leads
    another session.
    """
    return int(fields[SESSION_FIELD]) == main.pid and linux.start_ticks(main.pid) in {
        None,
        main.ticks,
    }


def _uid(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None
