"""A process next to a server that answers long questions, one after the other (`child_frames`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

from kalends.serving.child_frames import HEADER_BYTES, framed


class AnsweringChild:
    """``python -m MODULE ARGUMENTS``, which begins with the first question and ends with its input.

    `environment` is added to that of this process.
    """

    def __init__(self, module: str, *arguments: str, **environment: str) -> None:
        self._environment = environment
        self._command = (sys.executable, "-m", module, *arguments)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def runs(self) -> bool:
        return self._process is not None

    async def answer(self, question: bytes, within_s: float) -> bytes:
        """Return the answer, for one caller at a time. Raises `OSError`, `EOFError` and `TimeoutError`.

        An exchange that is cut off, also by a cancellation, ends the process: what is left of it would be
        taken for the next answer. The next question begins another process.
        """
        try:
            async with asyncio.timeout(within_s):
                return await self._exchanged(question)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the process, and whatever question is under way."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _exchanged(self, question: bytes) -> bytes:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, **self._environment},
            )
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(framed(question))
        await stdin.drain()
        header = await stdout.readexactly(HEADER_BYTES)
        return await stdout.readexactly(int.from_bytes(header, "big"))
