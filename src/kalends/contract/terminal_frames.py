"""What is said on the session at a job's terminal: a WebSocket, one frame of MessagePack a message.

The client says first what it wants (`AttachTerminal`). The answer is what the terminal has shown last and
who is at the keys, or a `TerminalRefusal`, after which the session is closed. What the program writes is
passed on as it is, and never read.

Output is a stream, and so is what is typed: each byte has a place in it, counted from the start of the
attempt. So a client that has lost its line knows what it has missed, and which of its keys never came.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from kalends.contract.job_calls import MachineName
from kalends.core.errors import Problem
from kalends.core.jobs import JobNumber

TERMINALS_PATH: Final = "/v1/terminals"

KEYS_BYTES_MAX: Final = 32 * 1024
"""Keys in one frame, and keys of one client that its program has not taken yet: more may be dropped."""

EXTENT_MAX: Final = 10_000

Extent = Annotated[int, Meta(ge=1, le=EXTENT_MAX)]
"""Rows or columns of a window."""


class _FromOnlooker(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True
):
    """Base of what clients say: unknown fields are refused."""


class _ToOnlooker(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Base of what they are told: they ignore fields that they do not know yet."""


class AttachTerminal(_FromOnlooker, frozen=True, kw_only=True, tag="attach"):
    """Show the terminal of a job that runs, to its user or an operator.

    With `keys` the client takes the keys from whoever has them, in a window of that size; else it looks on.
    `seat` is a name that it has drawn for itself. With `again` it gets the keys only if it was itself the
    last who took them.
    """

    machine: MachineName
    job: JobNumber
    keys: bool = False
    again: bool = False
    seat: Annotated[str, Meta(max_length=64)] = ""
    rows: Extent = 24
    columns: Extent = 80


class TypedKeys(_FromOnlooker, frozen=True, kw_only=True, tag="keys"):
    """What was typed. It counts from the one at the keys alone."""

    data: Annotated[bytes, Meta(max_length=KEYS_BYTES_MAX)]


class InputEnd(_FromOnlooker, frozen=True, kw_only=True, tag="input-end"):
    """Nothing more is typed: a program with pipes reads the end, one at a terminal its sign (Ctrl-D)."""


class WindowSize(_FromOnlooker, frozen=True, kw_only=True, tag="window-size"):
    """The window of the one at the keys has another size."""

    rows: Extent
    columns: Extent


class ScreenHistory(_ToOnlooker, frozen=True, kw_only=True, tag="history"):
    """What attempt `attempt` of the job has written last, from byte `start` of all that it wrote."""

    attempt: int
    start: int
    data: bytes


class ScreenOutput(_ToOnlooker, frozen=True, kw_only=True, tag="output"):
    """What the program has written next."""

    data: bytes


class SeatNotice(_ToOnlooker, frozen=True, kw_only=True, tag="seat"):
    """Whether this client is at the keys (`keys`), and how many are `attached`.

    `typed` counts all bytes that ever came from those at the keys, and 1 for an end; the program has not
    taken `pending` of them yet.
    """

    keys: bool
    attached: int
    typed: int
    pending: int


class TerminalEnd(_ToOnlooker, frozen=True, kw_only=True, tag="end"):
    """The program has ended, and this was all of its output. What became of it, the job says."""


class TerminalRefusal(_ToOnlooker, frozen=True, kw_only=True, tag="refusal"):
    """Why there is no place at this terminal."""

    problem: Problem


FromOnlooker = TypedKeys | InputEnd | WindowSize
ToOnlooker = ScreenHistory | ScreenOutput | SeatNotice | TerminalEnd | TerminalRefusal
