"""The host's end of a zygote: starting it, ordering workers from it, hearing how they end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from kalends.agents.sandbox import zygote as program
from kalends.agents.sandbox.lockdown import Allowance
from kalends.core.errors import Unavailable

START_S_MAX: Final = 20.0
END_S_MAX: Final = 5.0
ERRORS_BYTES_MAX: Final = 2_000

PASSED_ON: Final = ("LD_LIBRARY_PATH",)
"""All of our environment that a zygote needs: some Pythons do not start without it."""

CPUCLOCK_SCHED: Final = 2
"""Bits that, with a process id, make its clock, as clock_getcpuclockid(3) does."""

PERFORM: Final = "kalends.agents.language.job:perform"
ENGINE: Final = "kalends.agents.language:ENGINE"

# The zygote looks for modules where the host does, and does not read what `site` would read.
BOOT: Final = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[3]);"
    " from kalends.agents.sandbox.zygote import main; main(int(sys.argv[1]), sys.argv[2])"
)


class SandboxUnavailable(Unavailable):
    """Scripts cannot be run safely here, so they are not run; `detail` says what is missing."""

    code = "sandbox-unavailable"
    title = "Sandbox unavailable"


class Recipe(NamedTuple):
    """The recipe of a zygote: the limits of its workers, and the places of their code."""

    allowance: Allowance
    perform: str = PERFORM
    engine: str = ENGINE


class ExitStatus(NamedTuple):
    """Wait status (see wait(2)) and processor time of a process that has ended."""

    status: int
    cpu_us: int


class Worker:
    """A process that waits for its one job at the other end of `channel`.

    Its end is an `ExitStatus`, or None when it was lost together with its zygote.
    """

    def __init__(self, pid: int, pidfd: int, channel: socket.socket) -> None:
        channel.setblocking(False)
        self.pid = pid
        self.channel = channel
        self._end: asyncio.Future[ExitStatus | None] = asyncio.get_running_loop().create_future()
        self._heirs: list[Callable[[ExitStatus | None], None]] = []
        self._pidfd = pidfd

    def cpu_us(self) -> int | None:
        """Return the processor time so far; None after the process has ended and was reaped."""
        try:
            return time.clock_gettime_ns((~self.pid << 3) | CPUCLOCK_SCHED) // 1000
        except OSError:
            return None

    async def end(self) -> ExitStatus | None:
        """Wait for its end."""
        return await asyncio.shield(self._end)

    @property
    def ended(self) -> bool:
        """Whether the process has ended, even if its zygote has not reported it."""
        if self._end.done() or self._pidfd < 0:
            return True
        ended = select.poll()
        ended.register(self._pidfd, select.POLLIN)
        return bool(ended.poll(0))

    def on_end(self, then: Callable[[ExitStatus | None], None]) -> None:
        """Call `then` with its end before any waiting task goes on."""
        if self._end.done():
            then(self._end.result())
        else:
            self._heirs.append(then)

    def bury(self, ending: ExitStatus | None) -> None:
        """Record its end; called once, by its zygote."""
        self._end.set_result(ending)
        for then in self._heirs:
            then(ending)

    def kill(self) -> None:
        """End the process, whatever it is doing; readers of `channel` see it end."""
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def close(self) -> None:
        """Kill the process and forget it; for its holder. A second call does nothing."""
        self.kill()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
            self.channel.close()


class Zygote:
    """A running zygote. `gone` becomes done when its process has ended; all its workers end with it."""

    def __init__(self, recipe: Recipe, made: Callable[[Zygote, Worker], None]) -> None:
        """Start the process, from the thread that is to outlive it; raises `SandboxUnavailable`."""
        self.engine = ""
        self.walls: list[str] = []
        """What stands between a script and this host: seccomp, and what else the host has."""
        self.orders = 0
        loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = loop.create_future()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._witness: asyncio.Future[Worker] = loop.create_future()
        self._made = made
        self._alive: dict[int, Worker] = {}
        self._retired = False
        try:
            with contextlib.ExitStack() as undo:
                self._errors = os.memfd_create("errors")
                undo.callback(os.close, self._errors)
                self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                undo.callback(self._control.close)
                self._control.setblocking(False)
                with theirs:
                    self._process = _spawn(recipe, theirs.fileno(), self._errors)
                undo.callback(_end, self._process)
                self._pidfd = os.pidfd_open(self._process.pid)
                undo.pop_all()
        except OSError as error:
            raise SandboxUnavailable(f"Python did not start again: {error}") from None
        loop.add_reader(self._control.fileno(), self._hear)
        loop.add_reader(self._pidfd, self._bury)

    async def ready(self) -> None:
        """Wait until it has warmed up; raises `SandboxUnavailable`, and then it is to be closed."""
        try:
            async with asyncio.timeout(START_S_MAX):
                await self._ready
        except TimeoutError:
            raise SandboxUnavailable(f"the zygote took more than {START_S_MAX:g} s") from None

    def order(self) -> None:
        """Order another worker, which is passed to `made` unless the zygote dies before."""
        self.orders += 1
        self._say(program.FORK)

    async def witness(self) -> ExitStatus | None:
        """Order a worker that makes a forbidden call, and return how it ended."""
        self._say(program.WITNESS)
        either: list[asyncio.Future[Any]] = [self._witness, self.gone]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not self._witness.done():
            return None
        worker = self._witness.result()
        ending = await worker.end()
        worker.close()
        return ending

    def retire(self) -> None:
        """End as soon as the last worker has ended."""
        self._retired = True
        self._end_if_idle()

    async def close(self) -> None:
        """Kill all workers and end; nothing of it is left afterwards."""
        for worker in self._alive.values():
            worker.kill()
        # It kills and buries its workers, also those that we have not heard of yet, and then ends.
        self._hang_up()
        try:
            async with asyncio.timeout(END_S_MAX):
                await asyncio.shield(self.gone)
        except TimeoutError:
            self._process.kill()
            await asyncio.shield(self.gone)

    def _say(self, order: bytes) -> None:
        # When it cannot hear any more, `_bury` is about to be called.
        with contextlib.suppress(OSError):
            self._control.send(order)

    def _hear(self) -> None:
        """Read every packet that has come."""
        try:
            while True:
                packet, descriptors, _, _ = socket.recv_fds(
                    self._control, program.PACKET_BYTES_MAX, 2
                )
                if not packet:
                    self._hang_up()
                    return
                self._take(packet, descriptors)
        except BlockingIOError:
            return
        except OSError:
            self._hang_up()

    def _take(self, packet: bytes, descriptors: list[int]) -> None:
        kind, body = packet[:1], packet[1:]
        if kind == program.READY:
            self.engine, self.walls = json.loads(body)
            if not self._ready.done():
                self._ready.set_result(None)
        elif kind == program.FAILED:
            self._fail(f"the zygote did not get ready: {body.decode(errors='replace')}")
        elif kind == program.MADE:
            self._receive(packet, descriptors)
        elif kind == program.ENDED:
            _, pid, status, cpu_us = program.ENDED_FORM.unpack(packet)
            worker = self._alive.pop(pid, None)
            if worker is not None:
                worker.bury(ExitStatus(status, cpu_us))
            self._end_if_idle()

    def _receive(self, packet: bytes, descriptors: list[int]) -> None:
        if len(descriptors) != 2:
            # We have no descriptors left. Without them the worker is of no use and must not stay.
            for descriptor in descriptors:
                os.close(descriptor)
            self._hang_up()
            return
        _, pid, is_witness = program.MADE_FORM.unpack(packet)
        worker = Worker(pid, descriptors[0], socket.socket(fileno=descriptors[1]))
        self._alive[pid] = worker
        if is_witness and not self._witness.done():
            self._witness.set_result(worker)
        else:
            self._made(self, worker)

    def _end_if_idle(self) -> None:
        if self._retired and not self._alive:
            self._hang_up()

    def _hang_up(self) -> None:
        if self._control.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._control.close()

    def _bury(self) -> None:
        """Record the end of the process: read its last messages, then notify all waiting callers."""
        asyncio.get_running_loop().remove_reader(self._pidfd)
        if self._control.fileno() >= 0:
            self._hear()
        self._hang_up()
        code = self._process.wait()
        self._fail(f"the zygote ended with code {code} before it was ready: {self._said()}")
        os.close(self._pidfd)
        os.close(self._errors)
        for worker in self._alive.values():
            worker.kill()
            worker.bury(None)
        self._alive.clear()
        self.gone.set_result(None)

    def _fail(self, detail: str) -> None:
        if not self._ready.done():
            self._ready.set_exception(SandboxUnavailable(detail))

    def _said(self) -> str:
        """Return the end of what the process has written to its standard error."""
        size = os.fstat(self._errors).st_size
        start = max(0, size - ERRORS_BYTES_MAX)
        return os.pread(self._errors, ERRORS_BYTES_MAX, start).decode(errors="replace").strip()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _spawn(recipe: Recipe, control: int, errors: int) -> subprocess.Popen[bytes]:
    order = program.Order(
        recipe.perform,
        recipe.engine,
        recipe.allowance.memory_bytes,
        recipe.allowance.cpu_s,
        os.getpid(),
    )
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    # A script whose author knows the hashes of texts can have a dict pass over all keys to find one.
    environment |= {"PYTHONHASHSEED": "random", "PYTHONUTF8": "1"}
    home = str(Path(__file__).parents[3])
    path = [str(Path(entry).absolute()) for entry in sys.path if entry]
    return subprocess.Popen(
        [
            sys.executable, "-P", "-s", "-S", "-B", "-c", BOOT,
            str(control), json.dumps(order), json.dumps([*path, *({home} - set(path))]),
        ],
        env=environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        pass_fds=(control,),
        start_new_session=True,
    )  # fmt: skip
