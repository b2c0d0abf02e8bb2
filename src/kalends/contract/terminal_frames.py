"""The frames of a session at a job's terminal: a WebSocket, with one MessagePack frame for each message.

The client begins with its wish (`AttachTerminal`). The answer is the last output and the owner of the
keyboard, or a `TerminalRefusal`, after which the session is closed. The program's output is passed on
unread.

Output and keyboard input are streams: each byte has a position, counted from the start of the attempt. So a
client that lost its connection knows which output it missed, and which of its input never arrived.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from kalends.contract.fields import MachineName
from kalends.core.errors import Problem
from kalends.core.jobs import JobNumber

TERMINALS_PATH: Final = "/v1/terminals"

KEYS_BYTES_MAX: Final = 32 * 1024
"""Maximum bytes of input in one frame, and of input that the program has not read; more may be dropped."""

EXTENT_MAX: Final = 10_000

Extent = Annotated[int, Meta(ge=1, le=EXTENT_MAX)]
"""Maximum rows or columns of a window."""


class _FromOnlooker(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True
):
    """Base of frames from clients: unknown fields are refused."""


class _ToOnlooker(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Base of frames to clients, which ignore fields that they do not know yet."""


class AttachTerminal(_FromOnlooker, frozen=True, kw_only=True, tag="attach"):
    """Show the terminal of a running job to its user or an operator.

    With `keys` the client takes the keyboard from the client that has it, for a window of that size;
    otherwise it watches. `seat` is a random name of the client. With `again` it gets the keyboard only if it
    was the last to take it.
    """

    machine: MachineName
    job: JobNumber
    keys: bool = False
    again: bool = False
    seat: Annotated[str, Meta(max_length=64)] = ""
    rows: Extent = 24
    columns: Extent = 80


class TypedKeys(_FromOnlooker, frozen=True, kw_only=True, tag="keys"):
    """Keyboard input; it counts only from the client that has the keyboard."""

    data: Annotated[bytes, Meta(max_length=KEYS_BYTES_MAX)]


class InputEnd(_FromOnlooker, frozen=True, kw_only=True, tag="input-end"):
    """The end of input: a program with pipes reads the end, one at a terminal reads Ctrl-D."""


class WindowSize(_FromOnlooker, frozen=True, kw_only=True, tag="window-size"):
    """A new size of the window of the client that has the keyboard."""

    rows: Extent
    columns: Extent


class ScreenHistory(_ToOnlooker, frozen=True, kw_only=True, tag="history"):
    """The last output of attempt `attempt`, from byte `start` of all its output."""

    attempt: int
    start: int
    data: bytes


class ScreenOutput(_ToOnlooker, frozen=True, kw_only=True, tag="output"):
    """The next output of the program."""

    data: bytes


class SeatNotice(_ToOnlooker, frozen=True, kw_only=True, tag="seat"):
    """Whether this client has the keyboard (`keys`), and how many clients are `attached`.

    `typed` counts all bytes of keyboard input, and 1 for an end; the program has not read `pending` of them
    yet.
    """

    keys: bool
    attached: int
    typed: int
    pending: int


class TerminalEnd(_ToOnlooker, frozen=True, kw_only=True, tag="end"):
    """The end of the program and its output; the job has the result."""


class TerminalRefusal(_ToOnlooker, frozen=True, kw_only=True, tag="refusal"):
    """The reason why this terminal cannot be shown."""

    problem: Problem


FromOnlooker = TypedKeys | InputEnd | WindowSize
ToOnlooker = ScreenHistory | ScreenOutput | SeatNotice | TerminalEnd | TerminalRefusal
