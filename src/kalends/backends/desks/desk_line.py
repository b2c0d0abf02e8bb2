"""A site's connection to the desk of one user: starts the desk as that user, and restarts it when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import msgspec

from kalends.backends.adapter import SystemRefused, SystemSilent
from kalends.backends.command_runner import CLEAN
from kalends.backends.desks import wire
from kalends.backends.desks.handed_over import HandedOver, QueueAccess

AGAIN_S: Final = 2.0
READY_S_MAX: Final = 60.0
READ_S_MAX: Final = 30.0
MODULE: Final = "kalends.backends.desks.desk"


@dataclass(eq=False)
class DeskLine:
    """The desk of the Unix user `user`. `hear` takes news, each perhaps several times.

    Requests survive the death of a desk. The next desk finds out which of them were carried out.
    """

    access: QueueAccess
    user: str
    environment: Mapping[str, str]
    hear: Callable[[wire.News], None]
    failed: Callable[[str], None]
    _followed: set[str] = field(init=False, default_factory=set)
    _killed: set[str] = field(init=False, default_factory=set)
    _unsent: list[wire.SubmitAttempt] = field(init=False, default_factory=list)
    _reads: dict[int, asyncio.Future[wire.OutputPiece]] = field(init=False, default_factory=dict)
    _foreseen: dict[int, asyncio.Future[wire.StartForeseen]] = field(
        init=False, default_factory=dict
    )
    _numbers: Iterator[int] = field(init=False, default_factory=lambda: count(1))
    _writer: asyncio.StreamWriter | None = field(init=False, default=None)
    _task: asyncio.Task[None] | None = field(init=False, default=None)

    def submit(self, attempt: str, job: HandedOver) -> None:
        self._followed.add(attempt)
        if self._writer is not None:
            self._send(wire.SubmitAttempt(attempt, job))
        else:
            self._unsent.append(wire.SubmitAttempt(attempt, job))
            self._open()

    def follow(self, attempt: str) -> None:
        self._followed.add(attempt)
        self._ask(wire.FollowAttempt(attempt))

    def kill(self, attempt: str) -> None:
        self._followed.add(attempt)
        self._killed.add(attempt)
        self._ask(wire.KillAttempt(attempt))

    async def read(self, attempt: str, path: str, offset: int) -> wire.OutputPiece:
        """Return a piece of an attempt's output; raises `SystemSilent` if there is no answer."""
        number = next(self._numbers)
        future = asyncio.get_running_loop().create_future()
        self._reads[number] = future
        self._ask(wire.ReadPiece(number, attempt, path, offset))
        try:
            async with asyncio.timeout(READ_S_MAX):
                while self._writer is None:
                    await asyncio.sleep(0.05)
                    self._ask(wire.ReadPiece(number, attempt, path, offset))
                piece: wire.OutputPiece = await future
                return piece
        except TimeoutError:
            raise SystemSilent(f"the desk of {self.user} does not answer") from None
        finally:
            self._reads.pop(number, None)

    async def foresee(self, nodes: int, limit_s: int, wait_s: float) -> int:
        """Return when a job would start (seconds UTC); nothing is submitted.

        Raises `SystemSilent` if there is no answer after `wait_s`, and `SystemRefused` for a job that the
        system would refuse.
        """
        number = next(self._numbers)
        future = self._foreseen[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(wait_s):
                while self._writer is None:
                    self._open()
                    await asyncio.sleep(0.01)
                self._send(wire.ForeseeStart(number, nodes, limit_s))
                told: wire.StartForeseen = await future
        except TimeoutError:
            raise SystemSilent("it does not answer in time") from None
        finally:
            self._foreseen.pop(number, None)
        if told.fault:
            raise SystemRefused(told.fault)
        return told.at_s

    async def version(self) -> str:
        """Start a desk, and end it; return its system's version. Raises `SystemSilent` with the fault.

        The desk writes a file to the folder of jobs, and removes it.
        """
        process = await self._start()
        try:
            ready = await self._greeted(process)
        finally:
            await _ended(process)
        if ready.cannot:
            raise SystemSilent(ready.cannot)
        return ready.version

    async def close(self) -> None:
        """Jobs that were handed over continue."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _open(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._serve())

    def _ask(self, wish: wire.Wish) -> None:
        """Send it now; else the desk that is being started gets the attempts to follow and to kill."""
        if self._writer is not None:
            self._send(wish)
        else:
            self._open()

    def _send(self, wish: wire.Wish) -> None:
        assert self._writer is not None
        self._writer.write(wire.encode(wish) + b"\n")

    async def _serve(self) -> None:
        """Run a desk, and restart it when it ends."""
        told = ""
        while True:
            try:
                process = await self._start()
                try:
                    await self._greeted(process)
                    told = ""
                    await self._listen(process)
                finally:
                    self._writer = None
                    await _ended(process)
            except SystemSilent as error:
                if str(error) != told:
                    told = str(error)
                    self.failed(told)
            await asyncio.sleep(AGAIN_S)

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            entry = pwd.getpwnam(self.user)
        except KeyError:
            raise SystemSilent(f"there is no user {self.user} on this host") from None
        if entry.pw_uid == 0:
            raise SystemSilent("jobs are never handed over as root")
        who = {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}
        own = {
            name: value.replace("{user}", entry.pw_name) for name, value in self.environment.items()
        }
        path = {"PATH": os.environ.get("PATH", CLEAN["PATH"])}
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-m", MODULE,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL, limit=wire.LINE_BYTES_MAX,
                env={**CLEAN, **path, **who, **own}, cwd="/", start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise SystemSilent(f"no desk can be started for {entry.pw_name}: {error}") from error

    async def _greeted(self, process: asyncio.subprocess.Process) -> wire.DeskReady:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(wire.encode(wire.OpenDesk(self.access, self.user)) + b"\n")
        try:
            async with asyncio.timeout(READY_S_MAX):
                ready = wire.decode_told(await process.stdout.readline())
        except (TimeoutError, ValueError, msgspec.MsgspecError):
            raise SystemSilent(f"the desk of {self.user} does not start") from None
        if not isinstance(ready, wire.DeskReady) or ready.fault:
            raise SystemSilent(getattr(ready, "fault", "") or "the desk has sent an unknown line")
        return ready

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        self._writer = process.stdin
        unsent, self._unsent = self._unsent, []
        for submit in unsent:
            self._send(submit)
        for attempt in self._followed - {each.attempt for each in unsent}:
            self._send(wire.FollowAttempt(attempt))
        for attempt in self._killed:
            self._send(wire.KillAttempt(attempt))
        try:
            while line := await process.stdout.readline():
                self._take(wire.decode_told(line))
        except (ValueError, msgspec.MsgspecError) as error:
            raise SystemSilent(f"its desk has sent an unknown line: {error}") from None
        raise SystemSilent("its desk has ended")

    def _take(self, told: wire.Told) -> None:
        if isinstance(told, wire.OutputPiece):
            future = self._reads.get(told.number)
            if future is not None and not future.done():
                future.set_result(told)
        elif isinstance(told, wire.StartForeseen):
            foreseen = self._foreseen.get(told.number)
            if foreseen is not None and not foreseen.done():
                foreseen.set_result(told)
        elif not isinstance(told, wire.DeskReady) and told.attempt in self._followed:
            # A desk belongs to its user: its news of other users' attempts are ignored.
            if isinstance(told, wire.AttemptVoided | wire.AttemptEnded):
                self._followed.discard(told.attempt)
                self._killed.discard(told.attempt)
            self.hear(told)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Let a desk finish its work, which it can do alone."""
    if process.stdin is not None:
        process.stdin.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            await process.wait()
