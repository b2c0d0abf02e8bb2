"""What can befall a real server, apart from its own mistakes: it is killed, stands still, or its clock jumps.

A strike ends when its server is running and well again; what it did meanwhile is for an audit to judge.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from .servers import Server

DOWN_S_MAX: Final = 0.8
AGAIN_SHARE: Final = 0.1
"""So many of the restarted servers are killed again while they start."""

PAUSE_S: Final = (0.1, 16.0)
"""Up to more than any lease, heartbeat and wait for a lock."""

JUMP_S: Final = (10.0, 80.0)
"""Up to more than the minute after which a site looks for records that it may drop."""
HOUR_S: Final = 3_600
JUMPS_S: Final = tuple(
    sign * hours * HOUR_S for hours in (1, 30, 40 * 24, 5 * 365 * 24) for sign in (1, -1)
)

NEWS_OF_JUMPS: Final = ("the clock of this host is",)
"""By this, servers tell their owners that they have noticed it."""

Strike = Callable[[Server, random.Random], Awaitable[None]]


async def kill(server: Server, chance: random.Random) -> None:
    """SIGKILL, and a start some moments later; now and then a second time while it starts."""
    await _restart(server, chance)
    await server.healthy()


async def _restart(server: Server, chance: random.Random) -> None:
    await server.kill()
    # For how long it is down, and how far it gets with its start, is left to chance.
    await asyncio.sleep(chance.uniform(0, DOWN_S_MAX))
    if chance.random() < AGAIN_SHARE:
        await server.spawn()
        await asyncio.sleep(chance.uniform(0, DOWN_S_MAX))
        await server.kill()
    await server.spawn()
    await server.listening()


async def pause(server: Server, chance: random.Random) -> None:
    """SIGSTOP in the middle of whatever it does, and SIGCONT."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        # The strike is this time: others' leases, beats and patience run out in it, or do not.
        await asyncio.sleep(chance.uniform(*PAUSE_S))
    finally:
        os.kill(server.pid, signal.SIGCONT)
    await server.healthy()


class Clocks:
    """The wall clocks of servers, by Debian's faketime; their monotonic clocks stay right.

    A server whose `environment` is taken from here reads its offset from a file in `directory`.
    """

    def __init__(self, directory: Path) -> None:
        found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        if not found:
            raise FileNotFoundError("clocks cannot jump without faketime: apt-get install faketime")
        self._library = found[0]
        self._directory = directory

    def environment(self, name: str) -> Mapping[str, str]:
        """For the process of the server `name`; its clock is right until it jumps."""
        self._set(name, 0)
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file(name)),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    async def jump(self, server: Server, chance: random.Random) -> None:
        """By hours, days or years, there and back; every second time it restarts meanwhile."""
        self._set(server.name, chance.choice(JUMPS_S))
        try:
            if chance.random() < 0.5:
                await _restart(server, chance)
            # The strike is this time: the server does in it whatever it does by its clock.
            await asyncio.sleep(chance.uniform(*JUMP_S))
        finally:
            self._set(server.name, 0)
        await server.healthy()

    def _set(self, name: str, offset_s: int) -> None:
        """In one step, for a reader of half a line would take it for another time."""
        fresh = self._file(name).with_suffix(".new")
        fresh.write_text(f"{offset_s:+d}\n")
        fresh.replace(self._file(name))

    def _file(self, name: str) -> Path:
        return self._directory / f"{name}.clock"
