"""The sandbox's processes: their memory, as the system sees it, and what it takes to make them (Linux)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.visits.figures import spread
from kalends.agents.sandbox import Sandbox, SandboxLimits
from kalends.agents.sandbox.lockdown import Allowance
from kalends.agents.sandbox.zygote_process import Recipe, Worker, Zygote

PROC: Final = Path("/proc")
SETTLE_S: Final = 0.5
"""Until all spares are made and locked down."""


class Memory(NamedTuple):
    """KiB: its fair share of all it maps (PSS), and what nobody else maps."""

    pss_kib: int | None
    private_kib: int | None


def children(pid: int) -> list[int]:
    """The processes that `pid` has started and that still live."""
    found: list[int] = []
    for task in PROC.glob(f"{pid}/task/*/children"):
        with contextlib.suppress(OSError):  # The thread, or all of the process, may have ended.
            found += map(int, task.read_text().split())
    return sorted(found)


def zygote() -> int:
    """The one process of this one that workers are forked from; raises `LookupError`."""
    for pid in children(os.getpid()):
        with contextlib.suppress(OSError):  # It may have ended since it was listed.
            if b"zygote" in (PROC / str(pid) / "cmdline").read_bytes():
                return pid
    raise LookupError("this process has no zygote")


def spares() -> list[int]:
    return children(zygote())


def memory(pid: int) -> Memory:
    """Unknown for all but root: these processes let nobody look into them."""
    fields = {}
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except PermissionError:
        return Memory(None, None)
    for line in lines[1:]:
        name, _, rest = line.partition(":")
        fields[name] = int(rest.split()[0])
    return Memory(fields["Pss"], fields["Private_Clean"] + fields["Private_Dirty"])


async def making(limits: SandboxLimits, zygotes: int, forks: int) -> dict[str, Any]:
    """Milliseconds until a zygote is ready, until it has made a worker, and until such a one has ended.

    A worker ends when its channel is closed: it has locked itself down and found no job. `sandbox` is
    a whole start, with the proof that the wall stands, and spares.
    """
    allowance = Allowance(limits.memory_mb_max << 20, limits.cpu_s_max)
    made: asyncio.Queue[tuple[float, Worker]] = asyncio.Queue()
    zygote_ms, made_ms, ended_ms, sandbox_ms = [], [], [], []
    for _ in range(zygotes):
        began_s = time.perf_counter()
        mother = Zygote(Recipe(allowance), lambda _, it: made.put_nowait((time.perf_counter(), it)))
        await mother.ready()
        zygote_ms.append((time.perf_counter() - began_s) * 1e3)
        for _ in range(forks):
            began_s = time.perf_counter()
            mother.order()
            made_s, worker = await made.get()
            worker.channel.close()
            await worker.end()
            ended_ms.append((time.perf_counter() - began_s) * 1e3)
            made_ms.append((made_s - began_s) * 1e3)
            worker.close()
        await mother.close()
        began_s = time.perf_counter()
        sandbox = await Sandbox.start(limits)
        sandbox_ms.append((time.perf_counter() - began_s) * 1e3)
        await sandbox.close()
    return {
        "zygote_ready": spread(zygote_ms)._asdict(),
        "sandbox_ready": spread(sandbox_ms)._asdict(),
        "worker_made": spread(made_ms)._asdict(),
        "worker_made_locked_down_and_ended": spread(ended_ms)._asdict(),
    }


async def idle(limits: SandboxLimits) -> dict[str, Any]:
    """The memory of the zygote and of every spare that waits for its job."""
    sandbox = await Sandbox.start(limits)
    try:
        await asyncio.sleep(SETTLE_S)
        return {
            "zygote": memory(zygote())._asdict(),
            "spares": [memory(pid)._asdict() for pid in spares()],
        }
    finally:
        await sandbox.close()
