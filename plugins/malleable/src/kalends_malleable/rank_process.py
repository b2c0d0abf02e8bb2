"""A rank as a process of its own, forked by the lead: its messages to the lead, and its life.

Every message is one packet; its first byte is its kind. All ranks must send exactly the same messages, byte
by byte: so one rank at a barrier and another at an SOP, or two with different state, are found at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import traceback
from typing import Any, Final, NoReturn

import msgspec

from kalends_malleable.distributions import Distribution
from kalends_malleable.program import Program
from kalends_malleable.rank import Piece, Rank, Unwound, Values, packed

READY: Final = b"r"
"""A rank has started, or has entered the computation."""
BARRIER: Final = b"b"
"""With its purpose."""
SOP: Final = b"s"
"""With the state and the wished number of ranks."""
DONE: Final = b"d"
"""The computation has returned; with the state."""
FAILED: Final = b"f"
"""With the error and its traceback: the only message that other ranks need not send."""

GO: Final = b"g"
"""All ranks have sent the same message: continue."""
ENTER: Final = b"e"
"""With a `StageEntry`: leave the computation and enter that of the entry."""
LEAVE: Final = b"l"
"""Leave the computation, and end."""

PACKET_BYTES_MAX: Final = 160_000
TRACEBACK_CHARACTERS_MAX: Final = 16_000
ERROR_CHARACTERS_MAX: Final = 2_000
FAILED_STATUS: Final = 1

_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None)


class StageEntry(msgspec.Struct, frozen=True, array_like=True):
    """The data with which a rank enters the computation of a stage."""

    stage: int
    size: int
    state: bytes


class Halt(msgspec.Struct, frozen=True, array_like=True):
    """A rank's state at an SOP, and the number of ranks that it wants (0: no wish)."""

    state: bytes
    want: int = 0


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """An error that a computation raised, in one line and as a traceback."""

    error: str
    traceback: str


def be_rank(
    program: Program, arrays: dict[str, Values], number: int, link: socket.socket, lead: int
) -> NoReturn:
    """Live as rank `number`, in a process just forked by `lead`; ends the process."""
    status = FAILED_STATUS
    try:
        _end_with(lead)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _live(program, arrays, number, link)
        status = 0
    except BaseException as error:
        with contextlib.suppress(OSError):
            link.send(FAILED + msgspec.msgpack.encode(_failure(error)))
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)


def _live(program: Program, arrays: dict[str, Values], number: int, link: socket.socket) -> None:
    link.send(READY)
    word = link.recv(PACKET_BYTES_MAX)
    while word[:1] == ENTER:
        entry = msgspec.msgpack.decode(word[1:], type=StageEntry)
        team = _Forked(program, arrays, number, link, entry)
        rank = Rank(team, entry.state)
        link.send(READY)
        try:
            program.stages[entry.stage].computation(rank)
            team.leave_if_told()
            link.send(DONE + packed(rank.state))
            word = link.recv(PACKET_BYTES_MAX)
        except Unwound as unwound:
            word = unwound.args[0]


class _Forked:
    """A set of forked ranks over one copy of the arrays, seen by one of them."""

    def __init__(
        self,
        program: Program,
        arrays: dict[str, Values],
        number: int,
        link: socket.socket,
        entry: StageEntry,
    ) -> None:
        self.number, self.size = number, entry.size
        self._program, self._stage = program, entry.stage
        self._arrays = arrays
        self._link = link
        self._unwound: Unwound | None = None

    def pieces(self, name: str) -> list[Piece]:
        distribution, values = self._split(name)
        ranges = distribution.ranges(values.shape[distribution.axis], self.size, self.number)
        return [Piece(start, end, _part(values, distribution, start, end)) for start, end in ranges]

    def edges(self, name: str, width: int) -> tuple[Values, Values]:
        distribution, values = self._split(name)
        length = values.shape[distribution.axis]
        ((start, end),) = distribution.ranges(length, self.size, self.number)
        self._say(BARRIER + f"edges({name!r}, {width})".encode())
        before = _part(values, distribution, max(start - width, 0), start).copy()
        after = _part(values, distribution, end, min(end + width, length)).copy()
        self._say(BARRIER + f"edges({name!r}, {width}), read".encode())
        return before, after

    def whole(self, name: str) -> Values:
        self._say(BARRIER + f"whole({name!r})".encode())
        values = self._arrays[name].copy()
        self._say(BARRIER + f"whole({name!r}), read".encode())
        return values

    def barrier(self) -> None:
        self._say(BARRIER + b"barrier()")

    def sop(self, state: bytes, want: int) -> None:
        self._say(SOP + msgspec.msgpack.encode(Halt(state, want)))

    def leave_if_told(self) -> None:
        """Raise `Unwound` again if the program has caught it and continued."""
        if self._unwound is not None:
            raise self._unwound

    def _split(self, name: str) -> tuple[Distribution, Values]:
        return self._program.distribution(self._stage, name), self._arrays[name]

    def _say(self, word: bytes) -> None:
        """Send a message that all ranks send; return when they have, or leave the computation."""
        self.leave_if_told()
        self._link.send(word)
        answer = self._link.recv(PACKET_BYTES_MAX)
        if answer != GO:
            self._unwound = Unwound(answer)
            raise self._unwound


def _part(values: Values, distribution: Distribution, start: int, end: int) -> Values:
    where: list[Any] = [slice(None)] * values.ndim
    where[distribution.axis] = slice(start, end)
    part: Values = values[tuple(where)]
    return part


def _failure(error: BaseException) -> Failure:
    return Failure(
        "".join(traceback.format_exception_only(error)).strip()[:ERROR_CHARACTERS_MAX],
        "".join(traceback.format_exception(error))[-TRACEBACK_CHARACTERS_MAX:],
    )


def _end_with(lead: int) -> None:
    """Make the kernel end this process when its lead ends, however it ends; see prctl(2)."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != lead:
        os._exit(FAILED_STATUS)
