"""A launcher over a folder of its own, with all that was heard from it: for tests of real jobs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from kalends.batch.shepherds import linux
from kalends.batch.shepherds.conclusion import State
from kalends.batch.shepherds.control_group import usable
from kalends.batch.shepherds.facts import Begun, Ended, Fact, Main, Void
from kalends.batch.shepherds.launcher import Launcher
from kalends.batch.shepherds.order import JobOrder
from kalends.batch.shepherds.watch import Wanted
from kalends.batch.shepherds.zygote_supervisor import ZYGOTE
from kalends.core.errors import KalendsError
from tests.support.patience import PATIENCE_S

USER = "nobody" if os.geteuid() == 0 else ""


def control_group_mounts() -> list[str]:
    """Return where this host has control groups of version 2 that we may use."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return [place for _, place, kind, *_ in mounts if kind == "cgroup2" and usable(place)]


@contextlib.contextmanager
def control_group(mount: str) -> Iterator[str]:
    """Make a group for a test; "" where there is no mount."""
    if not mount:
        yield ""
        return
    group = tempfile.mkdtemp(prefix="kalends-", dir=mount)
    try:
        yield group
    finally:
        os.rmdir(group)


class JobRoom:
    """One server's life after another over the same folder.

    `home` belongs to the jobs' user; `mark` is an argument for those of whom none may be left.
    """

    def __init__(self, top: Path) -> None:
        top.chmod(0o711)
        self.top = top / "jobs"
        self.home = top / "home"
        self.home.mkdir()
        self.mark = f"mark-{top.name}"
        if os.geteuid() == 0:
            shutil.chown(self.home, USER)
        self.heard: dict[str, list[Fact | Wanted]] = {}
        self.launcher: Launcher
        self._changed = asyncio.Event()

    async def open(self, **options: Any) -> Launcher:
        self.launcher = Launcher(str(self.top), self._hear, **options)
        await self.launcher.start()
        return self.launcher

    def _hear(self, name: str, fact: Fact | Wanted) -> None:
        self.heard.setdefault(name, []).append(fact)
        self._changed.set()

    def order(self, name: str, *argv: str, **more: Any) -> JobOrder:
        return JobOrder(name, argv, user=USER, directory=str(self.home), **more)

    def shell(self, name: str, text: str, **more: Any) -> JobOrder:
        return self.order(name, "/bin/sh", "-c", text, output=f"out-{name}", **more)

    async def launch(self, *orders: JobOrder) -> None:
        await self.launcher.prepare([order.name for order in orders])
        self.launcher.launch(orders)

    async def run(self, order: JobOrder) -> Ended:
        await self.launch(order)
        return await self.ended(order.name)

    async def ended(self, name: str) -> Ended:
        return await self.fact(name, Ended)

    async def fact(self, name: str, kind: type[Any], number: int = 0) -> Any:
        """Wait for the fact of a kind, and return it."""
        found: list[Any] = []

        def look() -> bool:
            found[:] = [each for each in self.heard.get(name, []) if isinstance(each, kind)]
            return len(found) > number

        await self.until(look)
        return found[number]

    async def until(self, look: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not look():
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 0.02)

    def kinds(self, name: str) -> list[str]:
        return [type(each).__name__ for each in self.heard.get(name, [])]

    def said(self, name: str) -> str:
        return (self.home / f"out-{name}").read_text()

    def kept(self, name: str) -> str:
        return Path(self.launcher.folders.kept(name)).read_text()

    def pids_with(self, mark: str) -> list[int]:
        """Return the live processes that have `mark` among their arguments."""
        found = []
        for each in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                arguments = Path(f"/proc/{each}/cmdline").read_bytes()
                if mark.encode() in arguments and linux.start_ticks(int(each)) is not None:
                    found.append(int(each))
        return found

    async def end_running(self) -> None:
        """End what still runs by its shepherds, which leave nothing of it."""
        for name in list(self.heard):
            with contextlib.suppress(KalendsError, TimeoutError):
                await self.launcher.kill(name, "the test is over", 0)
                await self.until(lambda name=name: self._over(name))  # type: ignore[misc]

    def _over(self, name: str) -> bool:
        return self.launcher.look(name).state in (State.ENDED, State.VOID, State.ABSENT)

    def end_all(self) -> None:
        """Kill every shepherd and program that may be left."""
        for facts in self.heard.values():
            if any(isinstance(each, Ended | Void) for each in facts):
                continue
            for each in facts:
                if isinstance(each, Begun):
                    _kill(each.shepherd, each.ticks)
                elif isinstance(each, Main):
                    _kill(each.pid, each.ticks)


def _kill(pid: int, ticks: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        if linux.start_ticks(pid) == ticks:
            os.kill(pid, signal.SIGKILL)


@contextlib.asynccontextmanager
async def job_room(**options: Any) -> AsyncIterator[JobRoom]:
    """Make a room in a folder whose path is short enough for sockets, and leave nothing of it."""
    room = JobRoom(Path(tempfile.mkdtemp(prefix="kj-")))
    try:
        await room.open(program=options.pop("program", ZYGOTE), **options)
        yield room
    finally:
        await room.end_running()
        await room.launcher.close()
        room.end_all()
        shutil.rmtree(room.top.parent, ignore_errors=True)
