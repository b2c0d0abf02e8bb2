"""Bytes to validated types and back: MessagePack (`msgpack`) and JSON, with limits.

Values are checked against their types as they are built, and an error names the path. The body of a user's
call is read in two steps, because equal numbers are equal in every form: into plain values, whose number is
bounded, and from those by `kalends.core.conversion` into its type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, TypeVar

import msgpack
import msgspec

from kalends.core import limits
from kalends.core.conversion import UNREADABLE, detail_and_path, remedy_at
from kalends.core.errors import InvalidInput, TooLarge

MSGPACK: Final = "application/msgpack"
JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"
PROBLEM_MSGPACK: Final = "application/problem+msgpack"

NESTING_MAX: Final = 32
"""Depth of arrays and maps in a body; our types need 6. (msgpack itself stops at 511.)"""

T = TypeVar("T")

_MSGPACK = msgspec.msgpack.Encoder()
_SKIPPED: Final = msgspec.msgpack.Decoder(msgspec.Raw)

_JSON_TEXT: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A text, or the beginning of one without an end; no byte is read twice."""


def encode_msgpack(value: object) -> bytes:
    return _MSGPACK.encode(value)


def encode_json(value: object) -> bytes:
    return msgspec.json.encode(value)


def decode_msgpack(body: bytes, kind: type[T], *, bytes_max: int = limits.BODY_BYTES_MAX) -> T:
    """Return `body` as a `kind`, checked as it is built.

    Raises `TooLarge` beyond `bytes_max`, `InvalidInput` (with the path) for anything that is not
    exactly a `kind`. For types without free-form parts; `plain_msgpack` is for the others.
    """
    check_size(body, bytes_max)
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except UNREADABLE as error:
        raise _wrong(error, kind, "MessagePack") from error


def decode_frame(body: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """Return one frame between servers, of at most `limits.FRAME_BYTES_MAX`, checked as it is built.

    For types without free-form parts, of which a hostile body can make us build nothing else. Raises
    like `decode_msgpack`.
    """
    check_size(body, limits.FRAME_BYTES_MAX)
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        detail, where = detail_and_path(error)
        raise InvalidInput(detail, where=where or "body") from error


def decode_json(body: bytes, kind: type[T], *, bytes_max: int = limits.BODY_BYTES_MAX) -> T:
    """Return JSON as a type, like `decode_msgpack`."""
    check_size(body, bytes_max)
    try:
        return msgspec.json.decode(body, type=kind)
    except UNREADABLE as error:
        raise _wrong(error, kind, "JSON") from error


def plain_msgpack(body: bytes) -> Any:
    """Return the maps, lists and scalars in `body`.

    Raises `InvalidInput` for anything else, for more than `limits.MAPS_AND_LISTS_MAX` maps and lists, before
    any more of them is built, and for one of them with more than `limits.VALUES_MAX` entries.
    """
    room = limits.MAPS_AND_LISTS_MAX

    def counted(built: Any) -> Any:
        nonlocal room
        room -= 1
        if room < 0:
            raise _too_many()
        return built

    try:
        # Skips everything without building it. After this, lists have as many entries as they claim.
        _SKIPPED.decode(body)
        return msgpack.unpackb(
            body, strict_map_key=True, max_ext_len=0, object_hook=counted, list_hook=counted,
            max_array_len=limits.VALUES_MAX, max_map_len=limits.VALUES_MAX,
        )  # fmt: skip
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        if "exceeds max_" in str(error):
            raise _too_many() from error
        raise InvalidInput("the body is not valid MessagePack", where="body") from error


def is_map(packed: memoryview) -> bool:
    """Return whether the MessagePack value in `packed` is a map."""
    return packed[0] >> 4 == 0x8 or packed[0] in (0xDE, 0xDF)


def plain_json(body: bytes) -> Any:
    """Return the plain values of JSON, like `plain_msgpack`; counts the values before building any."""
    marks = {mark: body.count(mark) for mark in (b"{", b"[", b",")}
    if _exceed(marks.values()):
        outside_texts = _JSON_TEXT.sub(b"", body)
        if _exceed(outside_texts.count(mark) for mark in marks):
            raise _too_many()
    try:
        return msgspec.json.decode(body)
    except UNREADABLE as error:
        raise InvalidInput("the body is not valid JSON", where="body") from error


def _exceed(marks: Iterable[int]) -> bool:
    maps, lists, commas = marks
    return maps + lists > limits.MAPS_AND_LISTS_MAX or maps + lists + commas > limits.VALUES_MAX


def _too_many() -> InvalidInput:
    return InvalidInput(
        f"a body has at most {limits.VALUES_MAX} values, in {limits.MAPS_AND_LISTS_MAX} maps and lists",
        where="body",
        remedy="split the request",
    )


def _wrong(error: Exception, kind: object, form: str) -> InvalidInput:
    if not isinstance(error, msgspec.ValidationError):
        return InvalidInput(f"the body is not valid {form}", where="body")
    detail, where = detail_and_path(error)
    return InvalidInput(detail, where=where or "body", remedy=remedy_at(kind, detail, where))


def check_size(body: bytes, bytes_max: int) -> None:
    if len(body) > bytes_max:
        raise TooLarge(
            f"{len(body)} bytes, at most {bytes_max} are allowed",
            where="body",
            remedy="split the request",
        )


def messages_in_frame(
    sizes: Iterable[int], head_bytes: int, bytes_max: int = limits.FRAME_BYTES_MAX
) -> int:
    """Return how many of the waiting messages, of these sizes in bytes, fit into the next frame.

    At least the first; more while the frame, with its head, stays within `bytes_max`.
    """
    count, size = 0, head_bytes
    for length in islice(sizes, limits.FRAME_MESSAGES_MAX):
        size += length
        if count and size > bytes_max:
            break
        count += 1
    return count
