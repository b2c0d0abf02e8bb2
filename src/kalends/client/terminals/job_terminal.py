"""A place at the terminal of a job: it outlives the lines that it is reached by.

When a line is lost, the next one is opened by itself. What was written meanwhile is read then, and what was
typed and never came is sent once more; nothing is shown or typed twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, Self, TypeVar

import msgspec

from kalends.client.calls import CallSender
from kalends.client.terminals.terminal_line import TerminalLine
from kalends.client.terminals.typed_stream import TypedStream
from kalends.contract.job_calls import JobView
from kalends.contract.output_calls import JobOutput
from kalends.contract.terminal_frames import (
    AttachTerminal,
    InputEnd,
    ScreenHistory,
    ScreenOutput,
    SeatNotice,
    TerminalEnd,
    TypedKeys,
    WindowSize,
)
from kalends.core.errors import Conflict

T = TypeVar("T")

AWAY_S_MAX: Final = 300.0
"""A site that does not answer for so long is given up."""

LOOK_AGAIN_S: Final = 0.2
"""How often a job is looked at whose terminal is gone, and whose end is not known yet."""


class JobLooks(Protocol):
    """The calls that a terminal needs besides its own line."""

    async def job(self, machine: str, number: int) -> JobView: ...
    async def job_output(self, machine: str, number: int, *, offset: int = 0) -> JobOutput: ...


class JobTerminal:
    """What a job shows, and what is typed for it; `Client.attach` makes one.

    `at_keys` says whether what is typed here counts: it does from the one who asked for the keys last.
    """

    def __init__(
        self, jobs: JobLooks, sender: CallSender, wish: AttachTerminal, *, whole: bool
    ) -> None:
        self.at_keys = False
        self.attached = 0
        """How many are attached, this one included."""
        self.missed_bytes = 0
        """Output that was neither here nor kept at the site, and so was skipped in spite of `whole`."""
        self._jobs = jobs
        self._sender = sender
        self._wish = wish
        self._whole = whole
        self._line: TerminalLine | None = None
        self._attempt = 0
        self._typed = TypedStream()
        self._pieces: deque[tuple[int, bytes]] = deque()
        """Output that has come, with its place in all output."""
        self._next = 0
        """The place of what comes next."""
        self._seen = 0
        """The place up to which all has been read."""
        self._over = False
        self._job_over = False
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.detach()

    async def join(self) -> None:
        """Open a line, and hear who is at the keys; `Client.attach` has done it. Raises as that does."""
        while not (self._typed.settled or self._over):
            if self._line is None:
                self._line = await self._persist(
                    lambda: TerminalLine.opened(self._sender, self._wish)
                )
            await self._hear(self._line)

    async def read(self) -> bytes:
        """Return what the job writes next; b"" when it is over, or after `detach`.

        Joins again where the line was lost. Raises `Unavailable` after `AWAY_S_MAX` without an answer, and
        what the site refuses then.
        """
        while True:
            if self._pieces:
                piece = await self._piece()
            elif self._over:
                return b""
            elif self._job_over:
                piece = await self._rest()
            else:
                piece = b""
                await self._hear_or_join()
            if piece:
                return piece

    async def write(self, data: bytes) -> None:
        """Type `data`. Waits while the program takes nothing and while the line is lost.

        So `read` must be under way. Raises `Conflict` when another has taken the keys, or all is over.
        """
        if self._typed.ended:
            raise Conflict("its input has ended", where="terminal")
        while data:
            room = await self._room()
            piece, data = data[:room], data[room:]
            if self._typed.type(piece):
                await self._say(TypedKeys(data=piece))

    async def end_input(self) -> None:
        """Tell the program that nothing more is typed; raises `Conflict` as `write`."""
        await self._room()
        if self._typed.end():
            await self._say(InputEnd())

    async def resize(self, rows: int, columns: int) -> None:
        """Tell the size of the window: it counts from the one at the keys, also after a lost line."""
        self._wish = msgspec.structs.replace(self._wish, rows=rows, columns=columns)
        await self._say(WindowSize(rows=rows, columns=columns))

    async def detach(self) -> None:
        """Leave. The job goes on, and `read` ends; a second call does nothing."""
        self._over = True
        self._pieces.clear()
        self._changed.set()
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    async def _room(self) -> int:
        """Return how many bytes may be typed now, above 0."""
        while self.at_keys and not self._over and self._typed.room <= 0:
            self._changed.clear()
            await self._changed.wait()
        if self._over:
            raise Conflict("the job is over, or was detached from", where="terminal")
        if not self.at_keys:
            raise Conflict(
                "somebody else is at the keys", where="terminal", remedy="attach again to take them"
            )
        return self._typed.room

    async def _say(self, frame: TypedKeys | InputEnd | WindowSize) -> None:
        if self._line is not None:
            await self._line.say(frame)

    async def _hear_or_join(self) -> None:
        if self._line is not None:
            await self._hear(self._line)
            return
        try:
            await self.join()
        except Conflict:
            # It has ended, or waits for its next attempt.
            wish = self._wish
            view = await self._persist(lambda: self._jobs.job(wish.machine, wish.job))
            self._job_over = bool(view.end)
            if not self._job_over:
                await asyncio.sleep(LOOK_AGAIN_S)
            elif view.attempt != self._attempt:
                self._begin_attempt(view.attempt)

    async def _hear(self, line: TerminalLine) -> None:
        """Take one frame, or notice that the line is lost."""
        frame = await line.next()
        if isinstance(frame, ScreenHistory):
            if frame.attempt != self._attempt:
                self._begin_attempt(frame.attempt)
            self._pieces.append((frame.start, frame.data))
            self._next = frame.start + len(frame.data)
        elif isinstance(frame, ScreenOutput):
            self._pieces.append((self._next, frame.data))
            self._next += len(frame.data)
        elif isinstance(frame, SeatNotice):
            await self._take_notice(frame)
        elif isinstance(frame, TerminalEnd):
            self._over = True
            self._changed.set()
        else:
            if self._typed.settled:
                self._wish = msgspec.structs.replace(self._wish, keys=self.at_keys, again=True)
            self._typed.settled = False
            self._line = None
            await line.close()

    async def _take_notice(self, notice: SeatNotice) -> None:
        self.at_keys, self.attached = notice.keys, notice.attached
        self._changed.set()
        if not notice.keys:
            self._typed = TypedStream(settled=True)
            return
        unheard, ends = self._typed.hear(notice.typed, notice.pending)
        if unheard:
            await self._say(TypedKeys(data=unheard))
        if ends:
            await self._say(InputEnd())

    def _begin_attempt(self, attempt: int) -> None:
        """All counts begin anew with an attempt."""
        self._attempt, self._seen = attempt, 0
        self._typed = TypedStream()

    async def _piece(self) -> bytes:
        """Return the next output that has come, or what is missing before it."""
        start, data = self._pieces[0]
        if self._whole and self._seen < start:
            missing = (await self._kept())[: start - self._seen]
            self._seen += len(missing)
            if missing:
                return missing
            self.missed_bytes += start - self._seen
        if self._pieces:
            self._pieces.popleft()
        fresh = data[max(0, self._seen - start) :]
        self._seen = max(self._seen, start + len(data))
        return fresh

    async def _rest(self) -> bytes:
        """Return what a job that is over has written after all that was read."""
        piece = await self._kept()
        self._seen += len(piece)
        self._over = not piece
        return piece

    async def _kept(self) -> bytes:
        """Return a piece of what the site has kept of the output."""
        wish, seen = self._wish, self._seen
        kept = await self._persist(
            lambda: self._jobs.job_output(wish.machine, wish.job, offset=seen)
        )
        return kept.data

    async def _persist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        return await self._sender.persist(attempt, AWAY_S_MAX)
