"""The processes of a site that runs jobs, found by what Linux says of them, and killed at some moment."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kalends.batch.shepherds import linux
from kalends.batch.shepherds.zygote_supervisor import ZYGOTE

from . import strikes
from .servers import Server

SHEPHERD: Final = b"job "
"""So begins the name that a shepherd gives itself once it has its record's lock."""


class Found(NamedTuple):
    """A process that serves jobs of one folder: a zygote, a shepherd, or a fork that is neither yet."""

    pid: int
    ticks: int
    parent: int
    name: bytes


class JobDeaths:
    """Kills of one site's server, zygotes and shepherds; `killed` are the processes of jobs, by ticks.

    A spare shepherd that was chosen may have begun with a job before the signal reached it.
    """

    def __init__(self, site: Server, folder: str) -> None:
        self.struck: Counter[str] = Counter()
        self.killed: set[tuple[int, int]] = set()
        self._site = site
        self._folder = folder

    async def kill_server(self, chance: random.Random) -> None:
        """SIGKILL, and a start some moments later; now and then a second time while it starts."""
        self.struck["server"] += 1
        await strikes.kill(self._site, chance)

    def kill_zygote(self, chance: random.Random) -> bool:
        """Kill a zygote, or what one has just forked; return whether there was one."""
        young = [each for each in self.found() if not each.name.startswith(SHEPHERD)]
        return self._kill("zygote", young, chance)

    def kill_shepherd(self, chance: random.Random) -> bool:
        """Kill the shepherd of some job; return whether there was one."""
        named = [each for each in self.found() if each.name.startswith(SHEPHERD)]
        pids = {each.pid for each in named}
        # Its own fork has its name, too, until it has become the program.
        grown = [each for each in named if each.parent not in pids]
        return self._kill("shepherd", grown, chance)

    def found(self) -> list[Found]:
        """Return all processes that are, or were forked by, a zygote of the folder.

        Names are read before arguments: a fork that becomes a program meanwhile is no longer of these, and
        to kill it would be to kill the program.
        """
        return sorted(
            found
            for pid in _pids()
            if (found := _looked_at(pid)) is not None and self._is_ours(pid)
        )

    def left(self, mark: str) -> list[str]:
        """Return the command lines of the processes that name the folder or `mark`, there or around them."""
        marks = (os.fsencode(self._folder), os.fsencode(mark))
        return [
            said.replace(b"\0", b" ").decode(errors="replace")[:200]
            for pid in _pids()
            if pid != os.getpid()
            and (said := _read(pid, "cmdline"))
            and any(each in said or each in _read(pid, "environ") for each in marks)
        ]

    def _kill(self, kind: str, among: list[Found], chance: random.Random) -> bool:
        if not among:
            return False
        chosen = chance.choice(among)
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(chosen.pid)
            try:
                if linux.start_ticks(chosen.pid) != chosen.ticks:
                    return False
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)
            self.struck[kind] += 1
            self.killed.add((chosen.pid, chosen.ticks))
            return True
        return False

    def _is_ours(self, pid: int) -> bool:
        arguments = _read(pid, "cmdline").split(b"\0")
        return ZYGOTE.encode() in arguments and os.fsencode(self._folder) in arguments


def _pids() -> Iterator[int]:
    return map(int, filter(str.isdigit, os.listdir("/proc")))


def _looked_at(pid: int) -> Found | None:
    fields, name = linux.stat_fields(pid), _read(pid, "comm")
    if fields is None or fields[0] in (b"Z", b"X") or not name:
        return None
    return Found(pid, linux.start_ticks(pid) or 0, int(fields[1]), name)


def _read(pid: int, name: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""
