"""A worker: one job in, one result out, and the end. Forked from the zygote, never used twice.

A frame is a length of four bytes, big-endian, and as many bytes of MessagePack. By the time the job
is read the process is locked down (`lockdown`): whatever the script does, this is all it can reach.
Nothing here may call the kernel for anything else, not even to complain: a worker that is at a loss
exits with a code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

import msgpack

from kalends.agents.sandbox.lockdown import Allowance, Origin, lock_down
from kalends.agents.sandbox.seccomp import CHANNEL

HEADER_BYTES: Final = 4

EXIT_DONE: Final = 0
EXIT_UNABLE: Final = 69
"""The kernel refused to lock the process down; nothing was run."""
EXIT_NO_RESULT: Final = 70
EXIT_NO_MEMORY: Final = 71

Finish = Callable[[dict[str, Any]], NoReturn]
Perform = Callable[[dict[str, Any], Finish], object]
"""Do a job and call `Finish`, exactly once, with its result."""

NOT_PLAIN: Final[dict[str, Any]] = {"code": "bad-result", "detail": "the answer is not plain data"}


class _Rehearsed(BaseException):
    """Carries the result out of a rehearsal; no script sees it."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__()
        self.result = result


def work(
    channel: int, perform: Perform, rehearsal: bytes, allowance: Allowance, origin: Origin
) -> NoReturn:
    """Rehearse, lock down, do the one job that comes through `channel`, and exit.

    What a process writes to for the first time after a fork is copied then. A rehearsal, while
    nobody waits, does that for most of what a job will write to.
    """
    rehearse(perform, rehearsal)
    _lock_down(channel, allowance, origin)
    try:
        job = read_frame()
        if job:
            perform(_unpacked(job), finish)
    except MemoryError:
        os._exit(EXIT_NO_MEMORY)
    finally:
        os._exit(EXIT_NO_RESULT)


def rehearse(perform: Perform, rehearsal: bytes) -> dict[str, Any]:
    """Return the result of a job of our own; it leaves nothing behind but memory that is in use."""
    try:
        perform(_unpacked(rehearsal), _rehearsed)
    except _Rehearsed as rehearsed:
        return rehearsed.result
    return NOT_PLAIN


def _rehearsed(result: dict[str, Any]) -> NoReturn:
    raise _Rehearsed(result)


def bear_witness(channel: int, allowance: Allowance, origin: Origin) -> NoReturn:
    """Lock down, and make a harmless call that is not let through: this must be the end."""
    _lock_down(channel, allowance, origin)
    os.getppid()
    os._exit(EXIT_DONE)


def finish(result: dict[str, Any]) -> NoReturn:
    """Write `result` and wait for the end; a result that cannot be written is a bad result."""
    try:
        body = msgpack.packb(result)
    except (TypeError, ValueError, OverflowError):
        body = msgpack.packb(NOT_PLAIN)
    rest = memoryview(len(body).to_bytes(HEADER_BYTES, "big") + body)
    while rest:
        rest = rest[os.write(CHANNEL, rest) :]
    # Asleep, so that the kernel has counted all of our time when the host looks. Then it kills us.
    os.read(CHANNEL, 1)
    os._exit(EXIT_DONE)


def read_frame() -> bytes:
    """Return the one frame that the host sends; empty when the host has closed the channel."""
    header = _read_exactly(HEADER_BYTES)
    return _read_exactly(int.from_bytes(header, "big")) if header else b""


def _unpacked(body: bytes) -> Any:
    # Texts may hold half of a surrogate pair; the language refuses such sources with a reason.
    return msgpack.unpackb(body, strict_map_key=False, unicode_errors="surrogatepass")


def _read_exactly(count: int) -> bytes:
    chunks = []
    while count:
        chunk = os.read(CHANNEL, count)
        if not chunk:
            return b""
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)


def _lock_down(channel: int, allowance: Allowance, origin: Origin) -> None:
    # Tracebacks have nowhere to go, and trying to write one would look like an attack.
    sys.stderr = sys.stdout = None
    try:
        lock_down(channel, allowance, origin)
    except OSError:
        os._exit(EXIT_UNABLE)
