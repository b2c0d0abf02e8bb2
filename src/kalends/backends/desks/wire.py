"""Messages between a site and a desk: one JSON object a line."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from kalends.backends.desks.attempts import EndKind
from kalends.backends.desks.handed_over import HandedOver, QueueAccess
from kalends.core import limits

LINE_BYTES_MAX: Final = 4 * 1024 * 1024
READ_BYTES_MAX: Final = 256 * 1024

Native = Annotated[str, Meta(max_length=256)]
"""The number or name of a job in a batch system."""


class _DeskWord(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Base of all lines."""


class OpenDesk(_DeskWord, frozen=True):
    """The first line, answered by `DeskReady`: the way to the system, and the user that the desk becomes."""

    access: QueueAccess
    user: str


class SubmitAttempt(_DeskWord, frozen=True):
    """Hand an attempt over, unless that was tried before, and follow it."""

    attempt: str
    job: HandedOver


class FollowAttempt(_DeskWord, frozen=True):
    """Report the progress of an attempt. One that was certainly not submitted is decided never to begin."""

    attempt: str


class KillAttempt(_DeskWord, frozen=True):
    """End an attempt; one that has not begun never will."""

    attempt: str


class ReadPiece(_DeskWord, frozen=True):
    """Read a piece of a file of the user's, from `offset` on; `path` "" is an attempt's kept output."""

    number: int
    attempt: str
    path: str
    offset: int


class ForeseeStart(_DeskWord, frozen=True):
    """Report when a job would start, without submitting it."""

    number: int
    nodes: int
    limit_s: int


class DeskReady(_DeskWord, frozen=True):
    """The desk works, with this version of PSI/J or of Slurm; or `fault` says why not.

    With `cannot` it works, but can hand nothing over for its user at present, for this reason.
    """

    version: str
    fault: str = ""
    cannot: str = ""


class AttemptQueued(_DeskWord, frozen=True):
    """The system has it under the number `native`."""

    attempt: str
    native: Native


class AttemptBegun(_DeskWord, frozen=True):
    attempt: str
    at_s: Annotated[float, Meta(ge=0, le=limits.TIME_S_MAX)]
    native: Native


class AttemptVoided(_DeskWord, frozen=True):
    """The attempt has not begun, and never will."""

    attempt: str


class AttemptEnded(_DeskWord, frozen=True):
    attempt: str
    kind: EndKind
    status: Annotated[int, Meta(ge=0, le=255)]
    detail: str
    of_site: bool = False
    """The attempt could not be started, through no fault of the job."""


class DeskTrouble(_DeskWord, frozen=True):
    """A request failed, and is tried again."""

    attempt: str
    detail: str


class OutputPiece(_DeskWord, frozen=True):
    number: int
    data: bytes
    fault: str = ""
    there: bool = True
    """Whether any output of the attempt is kept."""


class StartForeseen(_DeskWord, frozen=True):
    """The system would start it at `at_s`; or `fault` says why that is unknown, or why it never would."""

    number: int
    at_s: Annotated[int, Meta(ge=0, le=limits.TIME_S_MAX)] = 0
    fault: str = ""


Wish = OpenDesk | SubmitAttempt | FollowAttempt | KillAttempt | ReadPiece | ForeseeStart
Told = (
    DeskReady
    | AttemptQueued
    | AttemptBegun
    | AttemptVoided
    | AttemptEnded
    | DeskTrouble
    | OutputPiece
    | StartForeseen
)
News = AttemptQueued | AttemptBegun | AttemptVoided | AttemptEnded | DeskTrouble

encode: Final = msgspec.json.encode
decode_wish: Final = msgspec.json.Decoder(Wish).decode
decode_told: Final = msgspec.json.Decoder(Told).decode
