"""Conversion of body bytes to plain values and back, in the form that the content type names.

Bodies are untrusted, so two steps check them. The codec bounds the memory that their bytes can take.
`normalize` then refuses values that could break a later step (a store, another codec, a
comparison): NUL in texts, integers beyond 64 bits, numbers that are not finite, deep nesting.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, Literal

from kalends.contract import codec
from kalends.core import limits
from kalends.core.conversion import convert, shortened
from kalends.core.errors import InvalidInput
from kalends.serving.http.problems import HttpRefusal

Form = Literal["json", "msgpack"]

CONTENT_TYPE: Final[dict[Form, str]] = {"json": codec.JSON, "msgpack": codec.MSGPACK}
PROBLEM_TYPE: Final[dict[Form, str]] = {
    "json": codec.PROBLEM_JSON,
    "msgpack": codec.PROBLEM_MSGPACK,
}

INTEGER_MIN: Final = -(1 << 63)
INTEGER_MAX: Final = (1 << 63) - 1
"""The largest integer that every store and codec can carry."""

EXACT_MAX: Final = 1 << 53
"""The largest integer below which integers and floats convert exactly."""

_FORM_OF: Final[dict[str, Form]] = {
    codec.JSON: "json",
    codec.PROBLEM_JSON: "json",
    codec.MSGPACK: "msgpack",
    codec.PROBLEM_MSGPACK: "msgpack",
    "application/x-msgpack": "msgpack",
}


def form_of_body(content_type: str) -> Form:
    """Return the form of a body, JSON by default. Raises `HttpRefusal` (415) for any other."""
    if not content_type:
        return "json"
    media, _, parameters = content_type.partition(";")
    form = _FORM_OF.get(media.strip().lower())
    charset = parameters.strip().lower().replace('"', "")
    if form is None or (charset.startswith("charset=") and charset != "charset=utf-8"):
        raise HttpRefusal(
            415,
            f"a body of type {content_type[:80]!a} is not accepted",
            where="Content-Type",
            remedy=f"send {codec.JSON} in UTF-8, or {codec.MSGPACK}",
        )
    return form


def form_of_answer(accept: str) -> Form:
    """Return the form that ``Accept`` prefers.

    JSON on a tie. Raises `HttpRefusal` (406) if it takes neither.
    """
    if not accept or accept == codec.JSON:
        return "json"
    json = _preference(accept, codec.JSON, codec.PROBLEM_JSON)
    msgpack = _preference(accept, codec.MSGPACK, codec.PROBLEM_MSGPACK)
    if json <= 0 and msgpack <= 0:
        raise HttpRefusal(
            406,
            f"answers are not available in {accept[:80]!a}",
            where="Accept",
            remedy=f"accept {codec.JSON} or {codec.MSGPACK}",
        )
    return "msgpack" if msgpack > json else "json"


def decode(body: bytes, form: Form, *, bytes_max: int) -> dict[str, Any]:
    """Return the map of plain values in `body`; an empty body is an empty map.

    Raises `TooLarge`, or `InvalidInput` with the path of the fault.
    """
    if not body:
        return {}
    codec.check_size(body, bytes_max)
    plain = codec.plain_json(body) if form == "json" else codec.plain_msgpack(body)
    raw = convert(plain, dict[str, Any])
    normalize(raw)
    return raw


def encode(value: object, form: Form) -> bytes:
    return codec.encode_json(value) if form == "json" else codec.encode_msgpack(value)


def normalize(raw: dict[str, Any]) -> None:
    """Write whole numbers in `raw` as integers: 5.0 and 5 are one number, in JSON as in its schemas.

    Raises `InvalidInput`, naming the path, for a value that no field can have.
    """
    try:
        _normalize(raw, raw.items(), 0, [limits.VALUES_MAX])
    except _NotPlain as error:
        raise InvalidInput(error.detail, where=error.where()) from None


class _NotPlain(Exception):
    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.steps: list[object] = []

    def where(self) -> str:
        path = ""
        for step in reversed(self.steps):
            path += f"[{step}]" if isinstance(step, int) else f".{step}"
        return shortened(path.removeprefix(".")) or "body"


def _normalize(holder: Any, items: Iterable[tuple[Any, Any]], depth: int, room: list[int]) -> None:
    """Check and normalize the `items` of `holder`, a map or a list, in place.

    `room` has one number: the remaining number of allowed values.

    One function on purpose, without a call for each leaf, because it runs over every value of every call.
    """
    if depth == codec.NESTING_MAX:
        raise _NotPlain(f"nested more than {codec.NESTING_MAX} levels deep")
    room[0] -= len(holder)
    if room[0] < 0:
        raise _NotPlain(f"more than {limits.VALUES_MAX} values")
    for step, value in items:
        kind = type(value)
        try:
            if kind is str:
                if "\0" in value:
                    raise _NotPlain("a text with a NUL character")
            elif kind is int:
                if not INTEGER_MIN <= value <= INTEGER_MAX:
                    raise _NotPlain("an integer beyond 64 bits")
            elif kind is dict:
                _normalize(value, value.items(), depth + 1, room)
            elif kind is list:
                _normalize(value, enumerate(value), depth + 1, room)
            elif kind is float:
                if not math.isfinite(value):
                    raise _NotPlain("a number that is not finite")
                if value.is_integer() and -EXACT_MAX <= value <= EXACT_MAX:
                    holder[step] = int(value)
            if type(step) is str and "\0" in step:
                raise _NotPlain("a field name with a NUL character")
        except _NotPlain as error:
            error.steps.append(step)
            raise


def _preference(accept: str, *names: str) -> float:
    """Return the quality (RFC 9110) that `accept` gives the best of `names`; 0 when it takes none of them.

    The most specific range that matches a name decides.
    """
    best: dict[str, tuple[int, float]] = {}
    for entry in accept.split(","):
        media, *parameters = (part.strip().lower() for part in entry.split(";"))
        quality = _quality(parameters)
        for name in names:
            if media == name:
                rank = 2
            elif media == "application/*":
                rank = 1
            elif media == "*/*":
                rank = 0
            else:
                continue
            best[name] = max(best.get(name, (-1, 0.0)), (rank, quality))
    return max((quality for _, quality in best.values()), default=0.0)


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                quality = float(parameter[2:])
            except ValueError:
                return 0.0
            return quality if 0.0 <= quality <= 1.0 else 0.0
    return 1.0
