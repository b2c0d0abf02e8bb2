"""What passes over one direction of a WebSocket: bytes, frames, and the messages in them.

Reads RFC 6455 from a stream that may be cut anywhere. A frame of a session carries several messages
(`kalends.contract.messages`) or several calls or replies (`kalends.contract.calls`): they are counted one by
one. Pings and pongs are left out, because how many there are depends on the time alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgpack

_HEAD_END: Final = b"\r\n\r\n"
_CONTROL: Final = 0x8
"""Opcodes from here on are control frames: close, ping, pong (RFC 6455, section 5.5)."""


@dataclass
class Counts:
    """`bytes` are those of data frames with their heads; `kinds` says how many messages of which kind."""

    bytes: int = 0
    frames: int = 0
    messages: int = 0
    kinds: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.bytes + other.bytes,
            self.frames + other.frames,
            self.messages + other.messages,
            dict(Counter(self.kinds) + Counter(other.kinds)),
        )

    def __sub__(self, earlier: Counts) -> Counts:
        """What has passed since `earlier`."""
        return Counts(
            self.bytes - earlier.bytes,
            self.frames - earlier.frames,
            self.messages - earlier.messages,
            dict(Counter(self.kinds) - Counter(earlier.kinds)),
        )


class _Head(NamedTuple):
    """The head of a frame: its own length, the length of the payload, and the kind of the frame."""

    length: int
    payload: int
    opcode: int
    final: bool
    mask: bytes


class Direction:
    """Counts one direction of one connection; `feed` it the bytes as they come."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._waiting = bytearray()
        self._upgraded: bool | None = None
        """Whether this is a WebSocket; None while the head of the first HTTP message is not all there."""

        self._parts = bytearray()
        """The payload so far of a message that is sent in several frames."""

    def feed(self, data: bytes) -> None:
        if self._upgraded is False:
            return
        self._waiting += data
        if self._upgraded is None and not self._read_http_head():
            return
        while head := _head(self._waiting):
            whole = head.length + head.payload
            if len(self._waiting) < whole:
                return
            payload = _unmasked(bytes(self._waiting[head.length : whole]), head.mask)
            del self._waiting[:whole]
            if head.opcode < _CONTROL:
                self._data_frame(whole, payload, head.final)

    def _read_http_head(self) -> bool:
        """Whether frames follow now; plain HTTP is carried without being counted."""
        end = self._waiting.find(_HEAD_END)
        if end < 0:
            return False
        self._upgraded = b"upgrade: websocket" in bytes(self._waiting[:end]).lower()
        del self._waiting[: end + len(_HEAD_END)]
        return self._upgraded

    def _data_frame(self, length: int, payload: bytes, final: bool) -> None:
        self._counts.bytes += length
        self._counts.frames += 1
        self._parts += payload
        if final:
            kinds = kinds_in(bytes(self._parts))
            self._parts.clear()
            self._counts.messages += len(kinds)
            for kind in kinds:
                self._counts.kinds[kind] = self._counts.kinds.get(kind, 0) + 1


def kinds_in(payload: bytes) -> list[str]:
    """The kind of each message, the name of each call, or "reply", in one frame of a session."""
    body = msgpack.unpackb(payload, strict_map_key=False)
    entries: list[dict[str, Any]] = body["messages"] if isinstance(body, dict) else body
    return [str(entry.get("kind") or entry.get("name") or "reply") for entry in entries]


def _head(data: bytearray) -> _Head | None:
    """The head of the frame that `data` begins with; None while it is not all there."""
    if len(data) < 2:
        return None
    length, at = data[1] & 0x7F, 2
    extra = {126: 2, 127: 8}.get(length, 0)
    masked = bool(data[1] & 0x80)
    if len(data) < at + extra + 4 * masked:
        return None
    if extra:
        length = int.from_bytes(data[at : at + extra], "big")
        at += extra
    mask = bytes(data[at : at + 4]) if masked else b""
    return _Head(at + len(mask), length, data[0] & 0x0F, bool(data[0] & 0x80), mask)


def _unmasked(payload: bytes, mask: bytes) -> bytes:
    if not mask or not payload:
        return payload
    key = (mask * (len(payload) // 4 + 1))[: len(payload)]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(
        len(payload), "big"
    )
