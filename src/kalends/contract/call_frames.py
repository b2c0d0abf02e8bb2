"""Calls and replies on a client's session, a WebSocket."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from kalends.core import limits
from kalends.core.errors import Problem


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
