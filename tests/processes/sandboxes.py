"""Sandboxes to test: started and closed, with jobs for them, and the processes that they consist of."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from kalends.agents.runs import ScriptRun
from kalends.agents.sandbox import Sandbox, SandboxLimits
from kalends.agents.sandbox.sandbox import Language
from kalends.agents.sandbox.zygote_process import BOOT
from tests.process_tree import descendants

from .servers import until

ANYTHING: Final = Language(
    "tests.processes.unrestricted:perform", "tests.processes.unrestricted:ENGINE"
)
AMPLE: Final = SandboxLimits(cpu_s_per_minute=1e6, wait_s_max=60.0, wall_s_max=30.0)

HONEST: Final = "def choose(view, request):\n    return [1, 2, 3]\n"


def job(source: str, *arguments: Any, user: str = "ada") -> ScriptRun:
    return ScriptRun(user, source, "choose", arguments or ({}, {}))


def choosing(*lines: str) -> str:
    return "def choose(view, request):\n" + "".join(f"    {line}\n" for line in lines)


@contextlib.asynccontextmanager
async def sandbox(
    limits: SandboxLimits = AMPLE, language: Language | None = ANYTHING, **options: Any
) -> AsyncIterator[Sandbox]:
    started = await Sandbox.start(limits, language=language, **options)
    try:
        yield started
    finally:
        await started.close()


def descriptors() -> set[str]:
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        # What lists them is open itself, and another thread may have closed one meanwhile.
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(entry))
    return found


def processes() -> dict[int, int]:
    """All zygotes and workers that stem from this process, with the parent of each.

    What other tests of this process still use (servers, players, clusters) is none, nor what stems from it.
    """
    found = descendants(os.getpid())
    for other in [pid for pid in found if _is_of_other_tests(pid)]:
        for each in {other, *descendants(other)}:
            found.pop(each, None)
    return found


def _is_of_other_tests(pid: int) -> bool:
    """Whether it runs another program; a process that has ended, but is still there, runs none."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return any(words) and BOOT.encode() not in words
    return False


async def zygote() -> int:
    """The zygote, as soon as there is exactly one: while it is replaced there may be none, or two."""

    async def alone() -> list[int]:
        found = [pid for pid, parent in processes().items() if parent == os.getpid()]
        return found if len(found) == 1 else []

    (only,) = await until(alone, "there is one zygote")
    return only
