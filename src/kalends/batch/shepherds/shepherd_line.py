"""The server's line to a shepherd: one command, or a terminal to look at and to type on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import socket
from collections import deque
from typing import Any, Final, NamedTuple

from kalends.batch.shepherds import frames
from kalends.core.errors import Conflict, Unavailable

ANSWER_S_MAX: Final = 5.0
AGAIN_S: Final = 0.01
READ_BYTES: Final = 64 * 1024


class ShepherdRefusal(Conflict):
    """The attempt runs, and its shepherd will not do what it was told."""


class History(NamedTuple):
    """The last output of the terminal before one attached, from byte `start` of all its output on."""

    start: int
    data: bytes


class Output(NamedTuple):
    """The last output of the program."""

    data: bytes


class Notice(NamedTuple):
    """Something else: ``{"ended": kind, ...}``, or of this attachment ``{"keys": bool, "attached": int,
    "typed": int, "pending": int}``: whether it is at the keys, how many there are, how many bytes were ever
    typed (and 1 for their end), and how many of them the program has not taken yet."""

    what: dict[str, Any]


class Attachment:
    """A place at a job's terminal. To be closed; the job goes on."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = frames.FrameReader()
        self._read: deque[tuple[bytes, bytes]] = deque()

    def ask_keys(self, rows: int, columns: int, seat: str = "", *, again: bool = False) -> None:
        """Take the keys from whoever has them, in a window of that size.

        With `again`, only if the last who took them called themselves `seat`, too.
        """
        wishes = {"keys": True, "rows": rows, "columns": columns, "seat": seat, "again": again}
        self._writer.write(frames.json_frame(frames.ATTACH, wishes))

    def look_on(self) -> None:
        """Only see what there was, and what follows."""
        self._writer.write(frames.json_frame(frames.ATTACH, {}))

    async def type(self, keys: bytes) -> None:
        """Hand on what was typed: nothing comes of it without the keys. Raises `Conflict` after the end."""
        for start in range(0, len(keys), frames.BODY_BYTES_MAX):
            body = keys[start : start + frames.BODY_BYTES_MAX]
            self._writer.write(frames.frame(frames.KEYS, body))
        await self._sent()

    async def end_input(self) -> None:
        """Tell the program that nothing more is typed; as `type`."""
        self._writer.write(frames.frame(frames.END, b""))
        await self._sent()

    def resize(self, rows: int, columns: int) -> None:
        """Tell the size of the window, which counts with the keys only."""
        size = {"rows": rows, "columns": columns}
        self._writer.write(frames.json_frame(frames.SIZE, size))

    async def next(self) -> History | Output | Notice | None:
        """Return what comes next; None when the job has ended, or this place was lost by being slow."""
        while not self._read:
            try:
                data = await self._reader.read(READ_BYTES)
                self._read.extend(self._frames.feed(data))
            except (OSError, ValueError):
                return None
            if not data:
                return None
        kind, body = self._read.popleft()
        if kind == frames.HISTORY:
            place = frames.PLACE_BYTES
            return History(int.from_bytes(body[:place]), body[place:])
        return Output(body) if kind == frames.OUTPUT else Notice(json.loads(body))

    async def _sent(self) -> None:
        try:
            await self._writer.drain()
        except OSError:
            raise Conflict(
                "the supervisor of the job has closed this terminal", where="terminal"
            ) from None

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


async def attach(path: str, name: str) -> Attachment:
    """Return a place at the terminal of attempt `name`; raises `Conflict` if it does not run."""
    return Attachment(*await _connect(path, name))


async def command(path: str, name: str, what: dict[str, Any]) -> dict[str, Any]:
    """Have the shepherd at `path` do something, and return its answer.

    Raises `Conflict` when the attempt does not run, `ShepherdRefusal`, and `Unavailable` when it does not
    answer: it may then have been done.
    """
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            answer = await _ask(path, name, what)
    except TimeoutError:
        raise Unavailable(
            "the supervisor of the job does not answer", where=f"job {name}", remedy="ask again"
        ) from None
    except (OSError, EOFError, ValueError):
        raise Conflict("the job has ended", where=f"job {name}") from None
    if "error" in answer:
        raise ShepherdRefusal(str(answer["error"]), where=f"job {name}")
    return answer


async def _ask(path: str, name: str, what: dict[str, Any]) -> dict[str, Any]:
    reader, writer = await _connect(path, name)
    try:
        writer.write(frames.json_frame(frames.COMMAND, what))
        read = frames.FrameReader()
        while data := await reader.read(READ_BYTES):
            for kind, body in read.feed(data):
                if kind == frames.ANSWER:
                    answer: dict[str, Any] = json.loads(body)
                    return answer
        raise EOFError
    finally:
        writer.close()


async def _connect(path: str, name: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.setblocking(False)
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            await _reach(line, path)
        return await asyncio.open_unix_connection(sock=line)
    except TimeoutError:
        line.close()
        raise Unavailable(
            "too many calls to the supervisor of the job", where=f"job {name}"
        ) from None
    except (FileNotFoundError, ConnectionError):
        line.close()
        raise Conflict("it does not run", where=f"job {name}") from None
    except OSError as error:
        line.close()
        raise Unavailable(
            f"cannot reach the supervisor of the job: {error}", where=f"job {name}"
        ) from None


async def _reach(line: socket.socket, path: str) -> None:
    """Connect, when there is room in the queue at `path`; raises `OSError`.

    asyncio would take a queue that is full for a connection under way (EAGAIN, unix(7)).
    """
    while True:
        refused = line.connect_ex(path)
        if refused == 0:
            return
        if refused != errno.EAGAIN:
            raise OSError(refused, os.strerror(refused))
        await asyncio.sleep(AGAIN_S)
