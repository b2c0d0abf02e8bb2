"""Sources of a program's changes of size: a batch service over a socket, a timetable, or none.

The lead of the program looks here at every SOP. Nothing here can end the program: a broken socket is
reopened now and then, and until then there are no demands.
"""

from __future__ import annotations

import contextlib
import re
import select
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from kalends.core.errors import InvalidInput
from kalends.core.limits import CONTROL_LINE_BYTES_MAX, RANKS_MAX
from kalends_malleable.change_desk import ChangeDesk
from kalends_malleable.control_lines import (
    LineBuffer,
    SizeDemand,
    SizeDenial,
    SizePermission,
    SizeReply,
    demand_in,
    denial_in,
    permission_in,
    reply_line,
    sizes_line,
    taking_line,
    want_line,
)

VARIABLE: Final = "KALENDS_CONTROL"
"""The environment variable with the path of the batch service's socket."""

AGAIN_S: Final = 5.0
"""The pause before a broken socket is reopened."""

CONNECT_S: Final = 2.0
PERMISSION_S: Final = 2.0
"""Time limit for the permission of a change; afterwards the program asks again on the next connection."""

LINES_AT_ONCE_MAX: Final = 64
"""Most reads at one SOP; the rest is read at the next one."""


class SizeControl(Protocol):
    """A source of changes of size."""

    def offer(self, sizes: Sequence[int]) -> None:
        """Take the sizes that the program can run on from now on."""

    def heard(self, sop: int) -> list[SizeDemand | SizeDenial]:
        """Return the demands received until the SOP of that number, without waiting."""

    def permits(self, number: int) -> bool:
        """Return whether the program may begin with that change now; if so, it is no longer withdrawn."""

    def reply(self, reply: SizeReply) -> None:
        """Take the answer to a demand."""

    def want(self, ranks: int) -> None:
        """Take the number of ranks that the program wants."""

    def close(self) -> None:
        """Close files, and send nothing."""


class NoControl:
    """A control that never changes the size."""

    def offer(self, sizes: Sequence[int]) -> None: ...

    def heard(self, sop: int) -> list[SizeDemand | SizeDenial]:
        return []

    def permits(self, number: int) -> bool:
        return True

    def reply(self, reply: SizeReply) -> None: ...

    def want(self, ranks: int) -> None: ...

    def close(self) -> None: ...


class Timetable:
    """Sizes by the number of the SOP; the program's own wishes are granted at the next SOP. For trials."""

    def __init__(self, sizes: Mapping[int, int]) -> None:
        self._sizes = dict(sizes)
        self._want = 0
        self.replies: list[SizeReply] = []

    @classmethod
    def of(cls, text: str) -> Timetable:
        """Read ``2@10,4@20``: 2 ranks at SOP 10, 4 at SOP 20. Raises `InvalidInput`."""
        sizes: dict[int, int] = {}
        for each in text.split(","):
            found = re.fullmatch(r"\s*([0-9]{1,7})@([0-9]{1,15})\s*", each)
            if found is None or not 1 <= int(found[1]) <= RANKS_MAX or int(found[2]) < 1:
                raise InvalidInput(
                    f"{each.strip()!r} is not a change of size",
                    remedy="write 2@10: 2 ranks at SOP 10",
                )
            sizes[int(found[2])] = int(found[1])
        return cls(sizes)

    def offer(self, sizes: Sequence[int]) -> None: ...

    def heard(self, sop: int) -> list[SizeDemand | SizeDenial]:
        to, self._want = self._sizes.pop(sop, self._want), 0
        return [SizeDemand(sop, to)] if to else []

    def permits(self, number: int) -> bool:
        return True

    def reply(self, reply: SizeReply) -> None:
        self.replies.append(reply)

    def want(self, ranks: int) -> None:
        self._want = ranks

    def close(self) -> None: ...


class ControlSocket:
    """The Unix stream socket of a batch service, with lines as in `control_lines`."""

    def __init__(self, path: str, clock_s: Callable[[], float]) -> None:
        self._path, self._clock_s = path, clock_s
        self._sizes: Sequence[int] = ()
        self._last: SizeReply | None = None
        self._buffer = LineBuffer()
        self._lines: list[bytes] = []
        """Lines received while waiting for another one."""
        self._socket: socket.socket | None = None
        self._again_s = clock_s()

    def offer(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        if self._socket is not None:
            self._say(sizes_line(sizes))
        else:
            self._open()

    def heard(self, sop: int) -> list[SizeDemand | SizeDenial]:
        if self._socket is None:
            self._open()
        lines, self._lines = self._lines, []
        for _ in range(LINES_AT_ONCE_MAX):
            read = self._read()
            if read is None:
                break
            lines += read
        said = [demand_in(line) or denial_in(line) for line in lines]
        return [each for each in said if each is not None]

    def permits(self, number: int) -> bool:
        """Ask, and wait; without an answer the program may not begin. The service then repeats its demand."""
        self._say(taking_line(number))
        for _ in range(LINES_AT_ONCE_MAX):
            if self._socket is None:
                return False
            waiting = select.poll()
            waiting.register(self._socket, select.POLLIN)
            if not waiting.poll(PERMISSION_S * 1000):
                break
            read = self._read() or []
            self._lines += read
            said = [permission_in(line) for line in self._lines]
            if SizePermission(number, True) in said:
                return True
            if SizePermission(number, False) in said:
                return False
        self.close()
        return False

    def _read(self) -> list[bytes] | None:
        """Return the lines received so far; None if nothing was received."""
        if self._socket is None:
            return None
        try:
            data = self._socket.recv(CONTROL_LINE_BYTES_MAX)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            self.close()
        return self._buffer.take(data)

    def reply(self, reply: SizeReply) -> None:
        self._last = reply
        self._say(reply_line(reply))

    def want(self, ranks: int) -> None:
        self._say(want_line(ranks))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self._buffer, self._lines = LineBuffer(), []
            self._again_s = self._clock_s() + AGAIN_S

    def _open(self) -> None:
        """Connect if it is time to; send the possible sizes, and the last answer again."""
        if self._clock_s() < self._again_s:
            return
        self._again_s = self._clock_s() + AGAIN_S
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(CONNECT_S)
        try:
            line.connect(self._path)
            line.setblocking(False)
        except OSError:
            line.close()
            return
        self._socket = line
        self._say(sizes_line(self._sizes))
        if self._last is not None:
            self._say(reply_line(self._last))

    def _say(self, line: bytes) -> None:
        """Send a line, or close the socket of a peer that does not read."""
        if self._socket is None:
            return
        sent = 0
        with contextlib.suppress(OSError):
            sent = self._socket.send(line, socket.MSG_NOSIGNAL)
        if sent < len(line):
            self.close()


def change_at(
    sop: int,
    sizes: Sequence[int],
    control: SizeControl,
    desk: ChangeDesk,
    note: Callable[[str], None],
) -> SizeDemand | SizeReply | None:
    """Return the step at this SOP: a change that may begin now, or the refusal of one.

    Sends immediate answers itself; `note` gets the program's denied wishes.
    """
    for said in control.heard(sop):
        if isinstance(said, SizeDenial):
            note(str(said))
            continue
        for reply in desk.hear(said):
            control.reply(reply)
    wanted = desk.next(sizes)
    if isinstance(wanted, SizeDemand) and not control.permits(wanted.number):
        return None
    return wanted


def control_named_by(environment: Mapping[str, str], clock_s: Callable[[], float]) -> SizeControl:
    """Return the control that the environment names, or `NoControl`."""
    path = environment.get(VARIABLE, "")
    return ControlSocket(path, clock_s) if path else NoControl()
