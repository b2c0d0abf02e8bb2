"""Base classes of calls: strictly checked bodies, answers that may get new fields, and frames of sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta

from kalends.core import limits
from kalends.core.errors import Problem

REPR_MAX: Final = 300
"""Characters of an answer in an interactive session: four lines of a terminal."""


class Body(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Base of call bodies: unknown fields are refused."""


class Answer(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True
):
    """Base of answers: clients ignore fields that they do not know yet."""

    def __repr__(self) -> str:
        """Return the set fields, cut at `REPR_MAX`, for interactive sessions."""
        whole = super().__repr__()
        return whole if len(whole) <= REPR_MAX else f"{whole[: REPR_MAX - 4]}...)"


class NotebookForm:
    """An answer that a notebook shows as HTML, once the client is loaded, which draws it."""

    __slots__ = ()

    _drawn: ClassVar[Callable[[object], str] | None] = None

    def _repr_html_(self) -> str | None:
        return None if NotebookForm._drawn is None else NotebookForm._drawn(self)

    @classmethod
    def draw_by(cls, as_html: Callable[[object], str]) -> None:
        """Show all answers as `as_html` draws them."""
        NotebookForm._drawn = as_html


class _CallHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    number: Annotated[int, Meta(ge=0, le=(1 << 53))]
    name: Annotated[str, Meta(max_length=32)]


class Call(_CallHead, frozen=True, forbid_unknown_fields=True):
    """One call on a client's session (WebSocket ``/v1/calls``): `number` pairs it with its reply."""

    body: dict[str, object] = {}


class UnreadCall(_CallHead, frozen=True, forbid_unknown_fields=True):
    """A `Call` as a server reads it from a frame, with `body` not decoded yet."""

    body: msgspec.Raw = msgspec.Raw(b"\x80")


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reply to a call: exactly one of `answer` and `problem`."""

    number: int
    answer: object = None
    problem: Problem | None = None


CallFrame = Annotated[list[UnreadCall], Meta(max_length=limits.FRAME_MESSAGES_MAX)]
"""A client's session frame: MessagePack of several calls in flight."""
