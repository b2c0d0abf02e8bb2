"""An attachment to the terminal of a job, which survives lost connections.

A lost connection is opened again automatically. Then output of the meantime is read, and input that did not
arrive is sent again. Nothing is shown or typed twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, Self, TypeVar

import msgspec

from kalends.client.calls import CallSender
from kalends.client.terminals.terminal_line import TerminalLine
from kalends.contract.job_calls import JobOutput, JobView
from kalends.contract.terminal_frames import (
    KEYS_BYTES_MAX,
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
"""Seconds without an answer after which a site is given up."""

LOOK_AGAIN_S: Final = 0.2
"""Seconds between queries of a job whose terminal has ended, until its end is known."""


class JobLooks(Protocol):
    """The calls that a terminal needs in addition to its own connection."""

    async def job(self, machine: str, number: int) -> JobView: ...
    async def job_output(self, machine: str, number: int, *, offset: int = 0) -> JobOutput: ...


class TypedStream:
    """The keyboard input of one client for one attempt. The site counts all input, and reports the count.

    While no other terminal takes the keyboard, all growth of the count is input of this client.
    """

    def __init__(self, *, settled: bool = False) -> None:
        self.settled = settled
        """Whether the count was reported on the present connection; input is sent only after that."""
        self.ended = False
        self._unheard = bytearray()
        self._pending = 0
        self._before: int | None = None
        self._typed = 0

    @property
    def room(self) -> int:
        """Return how many bytes may be typed now."""
        return KEYS_BYTES_MAX - len(self._unheard) - self._pending

    def type(self, keys: bytes) -> bool:
        """Take `keys`; return whether to send them now."""
        self._unheard += keys
        self._typed += len(keys)
        return self.settled

    def end(self) -> bool:
        """End the input; return whether to send the end now."""
        self.ended = True
        return self.settled

    def hear(self, typed: int, pending: int) -> tuple[bytes, bool]:
        """Take the site's counts; return the input to send again, and whether to send the end again."""
        fresh, self.settled = not self.settled, True
        if self._before is None:
            self._before = typed
        heard = typed - self._before
        self._pending = pending
        self._unheard = self._unheard[len(self._unheard) - max(self._typed - heard, 0) :]
        if not fresh:
            return b"", False
        return bytes(self._unheard), self.ended and heard <= self._typed


class JobTerminal:
    """Output and keyboard input of a job; `Client.attach` makes one.

    `at_keys` is whether input from here counts: the one who asked last has the keyboard.
    """

    def __init__(
        self, jobs: JobLooks, sender: CallSender, wish: AttachTerminal, *, whole: bool
    ) -> None:
        self.at_keys = False
        self.attached = 0
        """Number of attached terminals, including this one."""
        self.missed_bytes = 0
        """Bytes of output that neither arrived nor were stored at the site, skipped even with `whole`."""
        self._jobs = jobs
        self._sender = sender
        self._wish = wish
        self._whole = whole
        self._line: TerminalLine | None = None
        self._attempt = 0
        self._typed = TypedStream()
        self._pieces: deque[tuple[int, bytes]] = deque()
        """Received output, with its position in all output."""
        self._next = 0
        """The position of the next output to receive."""
        self._seen = 0
        """The position up to which all output has been read."""
        self._over = False
        self._job_over = False
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.detach()

    async def join(self) -> None:
        """Open a connection, and learn who has the keyboard; `Client.attach` calls this. Raises like it."""
        while not (self._typed.settled or self._over):
            if self._line is None:
                self._line = await self._persist(
                    lambda: TerminalLine.opened(self._sender, self._wish)
                )
            await self._hear(self._line)

    async def read(self) -> bytes:
        """Return the next output of the job; b"" when it has ended, or after `detach`.

        Attaches again if the connection was lost. Raises `Unavailable` after `AWAY_S_MAX` without an answer,
        and the site's error if it refuses.
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
        """Send `data` as keyboard input. Waits while the program reads nothing, or the connection is lost.

        So `read` must be under way. Raises `Conflict` if another terminal has taken the keyboard, or after
        the end.
        """
        if self._typed.ended:
            raise Conflict("its input has ended", where="terminal")
        while data:
            room = await self._room()
            piece, data = data[:room], data[room:]
            if self._typed.type(piece):
                await self._say(TypedKeys(data=piece))

    async def end_input(self) -> None:
        """Send the end of input; raises `Conflict` like `write`."""
        await self._room()
        if self._typed.end():
            await self._say(InputEnd())

    async def resize(self, rows: int, columns: int) -> None:
        """Send the size of the window, which counts while this terminal has the keyboard."""
        self._wish = msgspec.structs.replace(self._wish, rows=rows, columns=columns)
        await self._say(WindowSize(rows=rows, columns=columns))

    async def detach(self) -> None:
        """Detach. The job continues, and `read` ends; a second call does nothing."""
        self._over = True
        self._pieces.clear()
        self._changed.set()
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    async def _room(self) -> int:
        """Return how many bytes may be sent now, above 0."""
        while self.at_keys and not self._over and self._typed.room <= 0:
            self._changed.clear()
            await self._changed.wait()
        if self._over:
            raise Conflict("the job has ended, or this terminal was detached", where="terminal")
        if not self.at_keys:
            raise Conflict(
                "another terminal has the keyboard",
                where="terminal",
                remedy="attach again to take it",
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
            # The job has ended, or waits for its next attempt.
            wish = self._wish
            view = await self._persist(lambda: self._jobs.job(wish.machine, wish.job))
            self._job_over = bool(view.end)
            if not self._job_over:
                await asyncio.sleep(LOOK_AGAIN_S)
            elif view.attempt != self._attempt:
                self._begin_attempt(view.attempt)

    async def _hear(self, line: TerminalLine) -> None:
        """Handle one frame, or the loss of the connection."""
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
        """Reset all counts for a new attempt."""
        self._attempt, self._seen = attempt, 0
        self._typed = TypedStream()

    async def _piece(self) -> bytes:
        """Return the next received output, or fetch missing output before it."""
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
        """Return the rest of the output of an ended job."""
        piece = await self._kept()
        self._seen += len(piece)
        self._over = not piece
        return piece

    async def _kept(self) -> bytes:
        """Return a piece of the output stored at the site."""
        wish, seen = self._wish, self._seen
        kept = await self._persist(
            lambda: self._jobs.job_output(wish.machine, wish.job, offset=seen)
        )
        return kept.data

    async def _persist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        return await self._sender.persist(attempt, AWAY_S_MAX)
