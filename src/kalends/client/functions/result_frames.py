"""Programs that are sent as functions' jobs, and the frames in their output that hold results. Pure.

The frame is at the end of the output, behind what the function has printed. It names a mark, which only who
knows the key of the call can make, and the digest of its content: what others have printed is no result.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any, Final, Literal, NamedTuple, cast

from kalends.core.errors import TooLarge
from kalends.core.limits import JOB_SCRIPT_BYTES_MAX

OUTPUT_BYTES_MAX: Final = 1 << 20
"""The output that is kept beside a result: the last of it."""

_FRAME: Final = re.compile(
    rb"\n\[([0-9a-f]{32}) (returned|raised|too-large) ([0-9a-f]{64}) ([A-Za-z0-9+/=]*)\]\n"
)


class Frame(NamedTuple):
    """The outcome of the function, and its content as it was pickled; `output` was printed before."""

    kind: Literal["returned", "raised", "too-large"]
    content: bytes
    output: bytes


def mark_of(key: str) -> str:
    """Return the mark of the frame of the call with this key."""
    return hashlib.sha256(f"kalends result {key}".encode()).hexdigest()[:32]


def script_of(
    key: str,
    call: tuple[Any, ...],
    python: str,
    result_bytes_max: int,
    dumps: Callable[[Any], bytes],
) -> str:
    """Return the program of a job that makes `call`: a function, its arguments, and its named ones.

    Raises `TooLarge` where that is more than a job may bring.
    """
    packed = base64.b64encode(zlib.compress(dumps(call))).decode()
    program = files("kalends.client.functions").joinpath("job_program.py").read_text()
    interpreter = python if "/" in python else f"/usr/bin/env {python}"
    text = f"#!{interpreter}\n{program}\nrun({mark_of(key)!r}, {result_bytes_max}, {packed!r})\n"
    if len(text) > JOB_SCRIPT_BYTES_MAX:
        raise TooLarge(
            f"the function and its arguments take {len(text)} bytes as a job, and"
            f" {JOB_SCRIPT_BYTES_MAX} are the most",
            where="function",
            remedy="let the function read large arguments from a file at the machine",
        )
    return text


class ResultReader:
    """Takes the output of a job piece by piece, and keeps no more of it than a result may need."""

    def __init__(self, key: str, result_bytes_max: int) -> None:
        self._mark = mark_of(key).encode()
        # Content in base64, and the head of the frame.
        self._bytes_max = OUTPUT_BYTES_MAX + result_bytes_max * 4 // 3 + 1_024
        self._kept = bytearray()

    def feed(self, piece: bytes) -> None:
        self._kept += piece
        del self._kept[: max(0, len(self._kept) - self._bytes_max)]

    @property
    def output(self) -> bytes:
        """The end of the output so far."""
        return bytes(self._kept[-OUTPUT_BYTES_MAX:])

    def frame(self) -> Frame | None:
        """Return the frame at the end of the output; None if it has no whole one."""
        start = self._kept.rfind(b"\n[" + self._mark)
        found = _FRAME.match(self._kept, start) if start >= 0 else None
        if found is None:
            return None
        try:
            content = base64.b64decode(found[4], validate=True)
        except binascii.Error:
            return None
        if hashlib.sha256(content).hexdigest().encode() != found[3]:
            return None
        kind = cast(Literal["returned", "raised", "too-large"], found[2].decode())
        return Frame(kind, content, bytes(self._kept[max(0, start - OUTPUT_BYTES_MAX) : start]))
