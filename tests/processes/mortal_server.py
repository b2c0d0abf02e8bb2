"""A small server over a launcher, whose lives end at one call of the kernel after another.

    python -m tests.processes.mortal_server FOLDER USER STEP

Its journal holds what a server commits before it acts: ``start JOB.ATTEMPT`` and ``over JOB.ATTEMPT``. Each
life adopts what is not over, follows each void attempt by the next, starts one more job, and waits for it.
The last two lives have no death ahead. It prints how many lives there were, and how many died.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from pathlib import Path

from kalends.batch.shepherds.facts import Ended, Void
from kalends.batch.shepherds.launcher import Launcher
from kalends.batch.shepherds.order import JobOrder
from kalends.batch.shepherds.watch import Fact, Wanted
from tests.processes.mortality import die_before
from tests.support.patience import PATIENCE_S

CALLS = 200
"""Those of a life that has begun one job, and has heard of it."""


class MortalServer:
    """One life."""

    def __init__(self, folder: Path, user: str) -> None:
        self._folder = folder
        self._user = user
        self._open: set[str] = set()
        self._void: list[str] = []
        self._news = asyncio.Event()
        self._launcher = Launcher(str(folder / "jobs"), self._hear)
        self._journal = os.open(folder / "journal", os.O_RDWR | os.O_CREAT | os.O_APPEND)

    async def live(self, job: int) -> None:
        """Start `job`, if it is one, and go on until nothing is open."""
        for line in os.pread(self._journal, 1 << 20, 0).decode().splitlines():
            what, name = line.split()
            (self._open.add if what == "start" else self._open.discard)(name)
        await self._launcher.start()
        await self._launcher.adopt(sorted(self._open))
        if job:
            await self._start(f"{job}.1")
        async with asyncio.timeout(PATIENCE_S):
            while self._open or self._void:
                while self._void:
                    number, _, attempt = self._void.pop().partition(".")
                    await self._start(f"{number}.{int(attempt) + 1}")
                self._news.clear()
                if self._open:
                    await self._news.wait()
        await self._launcher.close()

    async def _start(self, name: str) -> None:
        await self._launcher.prepare([name])
        self._open.add(name)
        self._commit("start", name)
        text = 'echo "$KALENDS_JOB" >> started'
        self._launcher.launch(
            [
                JobOrder(
                    name,
                    ("/bin/sh", "-c", text),
                    user=self._user,
                    directory=str(self._folder / "home"),
                )
            ]
        )

    def _hear(self, name: str, fact: Fact | Wanted) -> None:
        if isinstance(fact, Ended | Void) and name in self._open:
            if isinstance(fact, Void):
                self._void.append(name)
            self._open.discard(name)
            self._news.set()
            # The next attempt of what is void is committed before: else it would be forgotten.
            if isinstance(fact, Ended):
                self._commit("over", name)

    def _commit(self, what: str, name: str) -> None:
        os.write(self._journal, f"{what} {name}\n".encode())
        os.fsync(self._journal)


def live(folder: Path, user: str, job: int, death: int) -> int:
    """Live in a process of its own, and return how that ended: 0, or by SIGKILL."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if death:
                die_before(death)
            asyncio.run(MortalServer(folder, user).live(job))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if ended not in (0, -signal.SIGKILL):
        raise SystemExit(f"life {job} with a death at call {death} has ended with {ended}")
    return ended


def main(folder: Path, user: str, step: int) -> None:
    """Die at every `step`-th call up to `CALLS`: later ones are those of a server that waits."""
    deaths = 0
    for job, death in enumerate(range(1, CALLS, step), 1):
        deaths += live(folder, user, job, death) != 0
    for _ in range(2):
        live(folder, user, 0, 0)
    print(job, deaths)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
