"""Frames between the server and a shepherd: one byte of kind, four of length, and the body."""

from __future__ import annotations

import json
import struct
from typing import Any, Final

COMMAND: Final = b"c"
"""To the shepherd, JSON ``{"do": ...}``; each is answered by one `ANSWER`, with "error" if it was refused."""
ANSWER: Final = b"a"

ATTACH: Final = b"t"
"""To the shepherd, JSON: show me the terminal. With ``"keys": true`` I want to be at the keys, and its size
is then ``"rows"`` and ``"columns"``. ``"seat"`` names me; with ``"again": true`` I get them only if nobody
else has had them since."""
KEYS: Final = b"k"
END: Final = b"e"
SIZE: Final = b"s"
"""From the one at the keys: what was typed; that nothing more comes; JSON of the size of their window."""
HISTORY: Final = b"h"
OUTPUT: Final = b"o"
NOTICE: Final = b"n"
"""To those attached: where in all output the following last part of it begins (eight bytes); what follows;
JSON of who is at the keys, or of the end."""

PLACE_BYTES: Final = 8
BODY_BYTES_MAX: Final = PLACE_BYTES + 64 * 1024
_HEAD: Final = struct.Struct(">cI")


def frame(kind: bytes, body: bytes) -> bytes:
    """Return one frame; a body is at most `BODY_BYTES_MAX` long."""
    return _HEAD.pack(kind, len(body)) + body


def json_frame(kind: bytes, body: dict[str, Any]) -> bytes:
    return frame(kind, json.dumps(body).encode())


def object_in(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; raises `ValueError` for anything else."""
    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def history_frame(start: int, data: bytes) -> bytes:
    """Return the frame of what has been said last, from byte `start` of it all on."""
    return frame(HISTORY, start.to_bytes(PLACE_BYTES) + data)


class FrameReader:
    """Frames out of the pieces in which they come."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Return the frames that `data` completes; raises `ValueError` when one is too long."""
        self._rest += data
        found = []
        while len(self._rest) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._rest)
            if length > BODY_BYTES_MAX:
                raise ValueError(f"a frame of {length} bytes")
            end = _HEAD.size + length
            if len(self._rest) < end:
                break
            found.append((kind, bytes(self._rest[_HEAD.size : end])))
            del self._rest[:end]
        return found
