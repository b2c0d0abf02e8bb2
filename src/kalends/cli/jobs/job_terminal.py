"""A job's terminal in this terminal: keyboard input, window size, and the key that detaches."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import termios
import threading
import tty
from collections.abc import Coroutine, Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kalends.core.errors import Conflict

if TYPE_CHECKING:
    from kalends.client.terminals.job_terminal import JobTerminal


T = TypeVar("T")

_LEAVE: Final = (signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)

LEAVE_KEYS: Final = re.compile(rb"\x1c")
"""Ctrl-\\."""

LOOKER_LEAVE_KEYS: Final = re.compile(rb"[\x1c\x03]")
"""Keys that detach while watching, when Ctrl-C has no other use."""

READ_BYTES: Final = 16 * 1024

DEFAULT_WINDOW: Final = (24, 80)


class Told(Exception):
    """The user's wish to end this command and leave the job alone, or (`interrupted`) to end it as well."""

    def __init__(self, *, interrupted: bool = False) -> None:
        super().__init__("interrupted" if interrupted else "left")
        self.interrupted = interrupted


class Ear:
    """A receiver of the wish: Ctrl-C interrupts; Ctrl-\\ leaves, and so does a closed terminal."""

    def __init__(self) -> None:
        self._told: asyncio.Future[Told] = asyncio.get_running_loop().create_future()

    def tell(self, told: Told) -> None:
        """Record the wish; only the first counts."""
        if not self._told.done():
            self._told.set_result(told)

    async def unless_told(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`; if a wish comes first, cancels `work` and raises `Told`."""
        task = asyncio.ensure_future(work)
        either: set[asyncio.Future[Any]] = {task, self._told}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise self._told.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@contextlib.contextmanager
def ear() -> Iterator[Ear]:
    """Receive signals inside the block."""
    loop, heard = asyncio.get_running_loop(), Ear()
    loop.add_signal_handler(signal.SIGINT, heard.tell, Told(interrupted=True))
    for each in _LEAVE:
        loop.add_signal_handler(each, heard.tell, Told())
    try:
        yield heard
    finally:
        for each in (signal.SIGINT, *_LEAVE):
            loop.remove_signal_handler(each)


def has_terminal() -> bool:
    """Return whether both standard input and standard output are terminals."""
    return os.isatty(sys.stdin.fileno()) and os.isatty(sys.stdout.fileno())


def window() -> tuple[int, int]:
    """Return rows and columns of this terminal."""
    try:
        size = os.get_terminal_size(sys.stdin.fileno())
    except OSError:
        return DEFAULT_WINDOW
    return size.lines or DEFAULT_WINDOW[0], size.columns or DEFAULT_WINDOW[1]


class Guest:
    """An attachment from here. With `raw`, all keys but those that detach pass unchanged."""

    def __init__(self, terminal: JobTerminal, ear: Ear, *, raw: bool, types: bool) -> None:
        self._terminal = terminal
        self._ear = ear
        self._raw = raw
        self._types = types
        self._loop = asyncio.get_running_loop()
        # Keys that a person types must be read even if the program reads nothing; piped input can wait.
        self._keys: asyncio.Queue[bytes] = asyncio.Queue(0 if raw else 1)

    async def stay(self) -> None:
        """Pass on input and output until the job has ended; raises `Told` if the user leaves first."""
        hands = None
        with _raw_keys() if self._raw else contextlib.nullcontext(), self._watched_window():
            if self._types or self._raw:
                threading.Thread(target=self._read_keys, daemon=True).start()
                hands = asyncio.create_task(self._hand_on())
            try:
                await self._ear.unless_told(self._show())
            finally:
                if hands is not None:
                    hands.cancel()
                    await asyncio.gather(hands, return_exceptions=True)
                await self._terminal.detach()

    async def _show(self) -> None:
        at_keys = self._terminal.at_keys
        try:
            while data := await self._terminal.read():
                await asyncio.to_thread(_put, data)
                if at_keys and not self._terminal.at_keys:
                    end = "\r\n" if self._raw else "\n"
                    click.echo(f"{end}[another terminal has the keyboard]{end}", nl=False, err=True)
                at_keys = self._terminal.at_keys
        except BrokenPipeError:
            # The reader of the pipe has gone: the job ends, like any other program in a pipe.
            raise Told(interrupted=True) from None

    async def _hand_on(self) -> None:
        while data := await self._keys.get():
            # Without the keyboard, input is dropped.
            with contextlib.suppress(Conflict):
                if self._types:
                    await self._terminal.write(data)
        if self._raw:
            self._ear.tell(Told())
        else:
            with contextlib.suppress(Conflict):
                await self._terminal.end_input()

    def _read_keys(self) -> None:
        """Read in a separate thread until the end, or a key that detaches; both are passed on as b""."""
        leave = LEAVE_KEYS if self._types else LOOKER_LEAVE_KEYS
        # After the end, the event loop is closed.
        with contextlib.suppress(RuntimeError, CancelledError):
            while data := _typed():
                if not self._raw:
                    asyncio.run_coroutine_threadsafe(self._keys.put(data), self._loop).result()
                    continue
                before = leave.split(data, maxsplit=1)[0]
                if before:
                    self._loop.call_soon_threadsafe(self._keys.put_nowait, before)
                if before != data:
                    self._loop.call_soon_threadsafe(self._ear.tell, Told())
                    return
            asyncio.run_coroutine_threadsafe(self._keys.put(b""), self._loop).result()

    @contextlib.contextmanager
    def _watched_window(self) -> Iterator[None]:
        tasks: set[asyncio.Task[None]] = set()

        def changed() -> None:
            tasks.add(self._loop.create_task(self._terminal.resize(*window())))

        self._loop.add_signal_handler(signal.SIGWINCH, changed)
        try:
            yield
        finally:
            self._loop.remove_signal_handler(signal.SIGWINCH)


@contextlib.contextmanager
def _raw_keys() -> Iterator[None]:
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _typed() -> bytes:
    """Return the next input; b"" at the end, or if this terminal was closed."""
    try:
        return os.read(sys.stdin.fileno(), READ_BYTES)
    except OSError:
        return b""


def _put(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
