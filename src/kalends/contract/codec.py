"""Bytes to validated types and back: MessagePack (`msgpack`) and JSON, with limits.

Two steps on purpose: the codec bounds what a hostile body can make us build; `msgspec.convert` then
checks every field against its type and names the path of what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final, TypeVar

import msgpack
import msgspec

from kalends.core import limits
from kalends.core.conversion import convert, detail_and_path
from kalends.core.errors import InvalidInput, TooLarge

MSGPACK: Final = "application/msgpack"
JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"
PROBLEM_MSGPACK: Final = "application/problem+msgpack"

NESTING_MAX: Final = 32
"""Depth of arrays and maps in a body; our types need 6. (msgpack itself stops at 511.)"""

T = TypeVar("T")

_MSGPACK = msgspec.msgpack.Encoder()


def encode_msgpack(value: object) -> bytes:
    return _MSGPACK.encode(value)


def encode_json(value: object) -> bytes:
    return msgspec.json.encode(value)


def decode_msgpack(body: bytes, kind: type[T], *, bytes_max: int = limits.BODY_BYTES_MAX) -> T:
    """`body` as a `kind`.

    Raises `TooLarge` beyond `bytes_max`, `InvalidInput` (with the path) for anything that is not
    exactly a `kind`.
    """
    check_size(body, bytes_max)
    try:
        raw = msgpack.unpackb(body, strict_map_key=True, max_ext_len=0)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise InvalidInput("the body is not valid MessagePack", where="body") from error
    return convert(raw, kind)


def decode_frame(body: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """One frame between servers, in one pass: at most `limits.FRAME_BYTES_MAX`, checked as it is built.

    For types without free-form parts, of which a hostile body can make us build nothing else. Raises
    as `decode_msgpack`.
    """
    check_size(body, limits.FRAME_BYTES_MAX)
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        detail, where = detail_and_path(error)
        raise InvalidInput(detail, where=where or "body") from error


def decode_json(body: bytes, kind: type[T], *, bytes_max: int = limits.BODY_BYTES_MAX) -> T:
    """As `decode_msgpack`, from JSON."""
    check_size(body, bytes_max)
    try:
        raw = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("the body is not valid JSON", where="body") from error
    return convert(raw, kind)


def check_size(body: bytes, bytes_max: int) -> None:
    if len(body) > bytes_max:
        raise TooLarge(
            f"{len(body)} bytes, at most {bytes_max} are taken",
            where="body",
            remedy="split the request",
        )


def messages_in_frame(
    sizes: Iterable[int], head_bytes: int, bytes_max: int = limits.FRAME_BYTES_MAX
) -> int:
    """Return how many waiting messages of these sizes in bytes the next frame carries.

    The first goes in any case; more as far as the frame, with its head, stays within `bytes_max`.
    """
    count, size = 0, head_bytes
    for length in islice(sizes, limits.FRAME_MESSAGES_MAX):
        size += length
        if count and size > bytes_max:
            break
        count += 1
    return count
