"""Real ``kalends serve`` processes: started, waited for, killed, stopped, and started again.

All waiting for processes is done here, bounded, on what a process prints, on its end, or on what it
answers (`until`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

import aiohttp

from tests.support.patience import PATIENCE_S

from .forked import ForkedProcess, forked_server

STOP_S_MAX: Final = 20.0
LOOK_EVERY_S: Final = 0.02

LISTENING: Final = re.compile(r"listening (?:site|broker|virtual) \S+ (http://\S+)")

LOG: Final = logging.getLogger(__name__)
"""A test that fails shows what its servers had logged."""

LOG.setLevel(logging.INFO)
LAST_CHARS: Final = 6_000

T = TypeVar("T")


class StartFailed(Exception):
    """The process ended, with `code` and what it wrote to its standard error, before it listened."""

    def __init__(self, name: str, code: int, errors: str) -> None:
        super().__init__(f"{name} did not start (exit code {code}):\n{errors[-3000:]}")
        self.code = code
        self.errors = errors


class Server:
    """One server by its configuration file; `url` and the store stay the same over its lives.

    `inside` are the words of a command to run it under, such as ``ip netns exec NAME``;
    `environment` is added to that of the tests.
    """

    def __init__(
        self,
        name: str,
        configuration: Path,
        url: str,
        *,
        inside: tuple[str, ...] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self.configuration = configuration
        self.url = url
        self.environment = environment
        self.inside = inside
        self._process: asyncio.subprocess.Process | ForkedProcess | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def spawn(self) -> None:
        """Start the process; returns before it listens."""
        assert not self.running, f"{self.name} is running"
        with self._log_path.open("ab") as log:
            self._log_from = log.tell()
            if not self.inside and not self.environment:
                self._process = await forked_server(str(self.configuration), log)
                return
            self._process = await asyncio.create_subprocess_exec(
                *self.inside, sys.executable, "-m", "kalends", "serve", str(self.configuration),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, **self.environment},
            )  # fmt: skip

    async def listening(self) -> None:
        """Return once it says that it listens; raises `StartFailed` when it ends instead."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while line := await process.stdout.readline():
                if LISTENING.search(line.decode()):
                    return
            raise StartFailed(self.name, await process.wait(), self.log())

    async def start(self) -> None:
        """Start the process and wait until it is healthy."""
        await self.spawn()
        await self.listening()
        await self.healthy()

    async def healthy(self) -> None:
        """Return once the server says that it is well."""

        async def is_healthy() -> bool:
            return await health(self.url) == "ok"

        await until(is_healthy, f"{self.name} is healthy")

    async def kill(self) -> None:
        """SIGKILL: the process ends in the middle of whatever it does."""
        process = self._process
        assert process is not None
        was_running = self.running
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if was_running and self._log_path.exists():
            LOG.info("%s, killed, had logged:\n%s", self.name, self.log()[-LAST_CHARS:])

    async def stop(self) -> int:
        """SIGTERM, and its exit code; a process that does not end is killed, and `TimeoutError` raised."""
        process = self._process
        assert process is not None
        try:
            if self._log_path.exists():
                LOG.info("%s, to stop, had logged:\n%s", self.name, self.log()[-LAST_CHARS:])
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            return await asyncio.wait_for(process.wait(), STOP_S_MAX)
        finally:
            await self.kill()

    def log(self) -> str:
        """What the present life has written to its standard error."""
        return self._log_path.read_bytes()[self._log_from :].decode(errors="replace")

    def memory_bytes(self) -> int:
        """Resident memory of the process (Linux)."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found.group(1)) * 1024

    @property
    def _log_path(self) -> Path:
        return self.configuration.with_suffix(".log")


async def is_true(what: object) -> bool:
    return bool(what)


async def until(
    holds: Callable[[], Awaitable[T]],
    what: str,
    *,
    within_s: float = PATIENCE_S,
    explain: Callable[[], object] = lambda: "",
) -> T:
    """Ask again and again until the answer of `holds` is true, and return it.

    Raises `AssertionError`, which says `what` did not come true and what `explain` says.
    """
    try:
        async with asyncio.timeout(within_s):
            # A bounded poll: the other side is a process, and tells nobody when it comes true.
            while not (answer := await holds()):  # noqa: ASYNC110
                await asyncio.sleep(LOOK_EVERY_S)
            return answer
    except TimeoutError:
        raise AssertionError(f"not within {within_s:g} s: {what}: {explain()}") from None


async def health(url: str) -> str:
    """The status that the server at `url` gives itself; "" when it does not answer."""
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2.0)) as http,
            http.get(url + "/healthz") as answer,
        ):
            return str((await answer.json()).get("status", ""))
    except (TimeoutError, aiohttp.ClientError, ValueError):
        return ""


async def readiness(url: str) -> tuple[int, dict[str, Any]]:
    """What a load balancer is answered by the server at `url`."""
    async with aiohttp.ClientSession() as http, http.get(url + "/readyz") as answer:
        return answer.status, await answer.json()


@contextlib.asynccontextmanager
async def running(*servers: Server) -> AsyncIterator[None]:
    """All of `servers` started, healthy within, and killed at the end, whatever happens."""
    try:
        for server in servers:
            await server.spawn()
        for server in servers:
            await server.listening()
        for server in servers:
            await server.healthy()
        yield
    finally:
        for server in servers:
            if server.running:
                await server.kill()
