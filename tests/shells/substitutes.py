"""Puts the world in the place of clocks, chance, threads, descriptors and SQLite: import it first.

Before aiohttp and the product, that is: some take functions from their modules once and for all.
"""

from __future__ import annotations

import fcntl
import gc
import os
import queue
import random
import socket
import sqlite3
import threading
import time
from typing import Any, Final

from tests.shells import connections, fibers
from tests.shells.disk import close_descriptor, open_descriptor
from tests.shells.sqlite_files import FILES
from tests.shells.stage import NODE, playing, world

WALL_AT_BEGIN_S: Final = 1_800_000_000
MONOTONIC_AT_BEGIN_S: Final = 1_000_000.0
FLOCK_S: Final = 0.01

cpu_s = time.process_time

_real_urandom = os.urandom
_real_flock = fcntl.flock
_real_create_server = socket.create_server
_RealRandom = random.Random
_unseeded: list[random.Random] = []


def begin(seed: int) -> None:
    """A world of `seed` begins: all chance comes from it."""
    random.seed(f"shared {seed}")
    for number, chance in enumerate(_unseeded):
        chance.seed(f"unseeded {number} {seed}")
    FILES.begin()


# Clocks


def _monotonic_s() -> float:
    return MONOTONIC_AT_BEGIN_S + (world().loop.now_s if playing() else 0.0)


def _monotonic_ns() -> int:
    return int(_monotonic_s() * 1e9)


def _steady_ns(clock: int) -> int:
    """No host of the world sleeps, so that all its clocks that never go back are one."""
    assert clock in (time.CLOCK_MONOTONIC, getattr(time, "CLOCK_BOOTTIME", None)), clock
    return _monotonic_ns()


def _wall_ns() -> int:
    if not playing():
        return WALL_AT_BEGIN_S * 1_000_000_000
    node = NODE.get()
    error_s = node.clock_error_s if node is not None else 0.0
    return int((WALL_AT_BEGIN_S + world().loop.now_s + error_s) * 1e9)


def _wall_s() -> float:
    return _wall_ns() / 1e9


def _no_sleep(seconds: float) -> None:
    raise AssertionError("time.sleep would stop every process of the world")


# Chance


def _urandom(count: int) -> bytes:
    return world().random_bytes(count) if playing() else _real_urandom(count)


class _Random(_RealRandom):
    """Without a seed C would ask the system: aiohttp masks its frames by such a one."""

    def __new__(cls, seed: Any = None) -> _Random:
        return super().__new__(cls, 0)

    def __init__(self, seed: Any = None) -> None:
        super().__init__(0 if seed is None else seed)
        if seed is None:
            _unseeded.append(self)


# Descriptors: a process that is killed lets go of its locks


def _open(*arguments: Any, **more: Any) -> int:
    descriptor = open_descriptor(*arguments, **more)
    node = NODE.get()
    if node is not None:
        node.descriptors.add(descriptor)
    return descriptor


def _close(descriptor: int) -> None:
    node = NODE.get()
    if node is not None:
        if node.dead:
            return
        node.descriptors.discard(descriptor)
    close_descriptor(descriptor)


def _flock(descriptor: int, how: int) -> None:
    """One that waits does so in virtual time: the whole interpreter would wait for itself."""
    while not how & (fcntl.LOCK_NB | fcntl.LOCK_UN):
        try:
            return _real_flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            assert fibers.on_fiber(), "a lock is waited for on the event loop"
            fibers.sleep(FLOCK_S)
    return _real_flock(descriptor, how)


def _create_server(address: Any, **more: Any) -> Any:
    if not playing():
        return _real_create_server(address, **more)
    return world().network.listen(address[:2])


def _put_in_place() -> None:
    replaced: dict[Any, dict[str, Any]] = {
        time: {
            "monotonic": _monotonic_s,
            "perf_counter": _monotonic_s,
            "monotonic_ns": _monotonic_ns,
            "perf_counter_ns": _monotonic_ns,
            "clock_gettime_ns": _steady_ns,
            "time": _wall_s,
            "time_ns": _wall_ns,
            "sleep": _no_sleep,
        },
        random: {"Random": _Random, "_urandom": _urandom},
        os: {"urandom": _urandom, "open": _open, "close": _close},
        fcntl: {"flock": _flock},
        socket: {"create_server": _create_server},
        sqlite3: {"connect": connections.connect},
        gc: {"freeze": lambda: None},
    }
    for module, names in replaced.items():
        for name, substitute in names.items():
            setattr(module, name, substitute)
    # Only where the product starts threads of its own; executors come through the loop.
    from kalends.stores import group_commit

    assert (group_commit.threading, group_commit.queue) == (threading, queue)
    group_commit.threading = fibers.ThreadingModule  # type: ignore[assignment]
    group_commit.queue = fibers.QueueModule  # type: ignore[assignment]


_put_in_place()
