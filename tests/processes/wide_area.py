"""Hosts that are far apart, and can be cut off: network namespaces joined by ``tools/wan``."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

WAN: Final = Path(__file__).resolve().parents[2] / "tools" / "wan"
ANSWER_S_MAX: Final = 10.0
CLONE_NEWNET: Final = 0x4000_0000


class WideArea:
    """A network that is up; hosts are numbered from 1."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self._name = name
        self._process = process

    def address(self, host: int) -> str:
        return f"10.77.0.{host}"

    def on(self, host: int) -> tuple[str, ...]:
        """The words that run a command on `host`."""
        return ("ip", "netns", "exec", self.namespace(host))

    def namespace(self, host: int) -> str:
        return f"{self._name}-{host}"

    async def cut(self, *words: int | str) -> None:
        """``cut(1)``, ``cut(1, "in")``, ``cut(1, "out")``, ``cut(1, 2)``: see ``tools/wan``."""
        await self._command("cut", *words)

    async def heal(self) -> None:
        await self._command("heal")

    async def state(self) -> dict[str, Any]:
        return await self._command("state")

    async def _command(self, *words: int | str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write((" ".join(map(str, words)) + "\n").encode())
        answer = await self.answer()
        assert "error" not in answer, answer
        return answer

    async def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        async with asyncio.timeout(ANSWER_S_MAX):
            line = await self._process.stdout.readline()
        assert line, "the network went down"
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextlib.asynccontextmanager
async def wide_area(hosts: int, *, delay_ms: float, loss: float) -> AsyncIterator[WideArea]:
    """A network of so many hosts; it and all that runs on them ends with this, however this ends."""
    name = f"kalends{os.getpid()}"
    process = await asyncio.create_subprocess_exec(
        str(WAN), name, str(hosts), "--delay-ms", str(delay_ms), "--loss", str(loss),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        network = WideArea(name, process)
        await network.answer()
        yield network
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread's new sockets are those of a host, until the end."""
    with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{namespace}") as away:
        _enter(away.fileno())
        try:
            yield
        finally:
            _enter(home.fileno())


def _enter(descriptor: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
