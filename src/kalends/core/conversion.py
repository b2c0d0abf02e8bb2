"""Conversion of maps, lists and scalars to validated types, with errors in the user's words."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec

from kalends.core.errors import InvalidInput
from kalends.core.identifiers import IN_WORDS, perhaps, whole

T = TypeVar("T")

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What bytes raise that are not what was encoded: a flipped bit in a text is no error of msgspec's own."""

_MISMATCHES: Final = {
    f"Expected `str` matching regex {whole(form)!r}": words
    for pattern, words in IN_WORDS.items()
    for form in (pattern, perhaps(pattern))
}
"""Descriptions instead of patterns, because msgspec's messages show only the pattern."""

_SAID_MAX: Final = 300
"""Maximum length of a detail or a path: names of fields can be as long as a body."""

_LENGTH: Final = re.compile(r"Expected `(\w+)` of length (<=|>=) (\d+)")
_BOUND: Final = re.compile(r"Expected `(?:int|float)` (<=|>=|<|>) (-?[0-9.e+]+)")
_COMPARED: Final = {"<=": "at most", ">=": "at least", "<": "below", ">": "above"}
_KINDS: Final = re.compile(r"Expected `(\w+)(?: \| null)?`, got `(\w+)`")
_KIND_WORDS: Final = {
    "str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false",
    "array": "a list", "object": "a map", "null": "nothing", "bytes": "bytes",
}  # fmt: skip
_COUNTED: Final = {"str": "characters", "bytes": "bytes"}


def convert(raw: Any, kind: type[T], *, strict: bool = True) -> T:
    """Convert `raw` (maps, lists, scalars) to a `kind`; raises `InvalidInput` naming the path.

    If not `strict`, texts are read as numbers and truth values, as in a query string.
    """
    try:
        return msgspec.convert(raw, kind, strict=strict)
    except UnicodeEncodeError as error:
        raise InvalidInput(
            "a text has a lone surrogate", where="body", remedy="write it in UTF-8"
        ) from error
    except (msgspec.ValidationError, RecursionError) as error:
        detail, where = detail_and_path(error)
        remedy = remedy_at(kind, detail, where)
        raise InvalidInput(detail, where=where or "body", remedy=remedy) from error


def detail_and_path(error: Exception) -> tuple[str, str]:
    """Return the detail and the path ("" for the whole) of a conversion error of msgspec.

    Its messages end in " - at `$.terms[0].units`", or in " - at `key` in `$.units`".
    """
    detail, _, path = str(error).rpartition(" - at `")
    if not detail:
        return shortened(_in_words(path)), ""
    where = path.rstrip("`").rpartition("`")[2]
    return shortened(_in_words(detail)), shortened(where.removeprefix("$").removeprefix("."))


def shortened(text: str) -> str:
    """Return `text`, or its beginning if it is too long to read, because it may contain input."""
    return text if len(text) <= _SAID_MAX else f"{text[:_SAID_MAX]}..."


def remedy_at(kind: Any, detail: str, where: str) -> str:
    """Return the allowed words at a path in a `kind`, as a remedy; "" if the error is another."""
    if not detail.startswith("Invalid enum value"):
        return ""
    # Imported here because only errors need it.
    from kalends.core.choices import choices_at

    return f"write one of {', '.join(choices_at(kind, where))}"


def _in_words(detail: str) -> str:
    if length := _LENGTH.fullmatch(detail):
        kind, relation, number = length.groups()
        what = "more" if relation == "<=" else "fewer"
        return f"it has {what} than {number} {_COUNTED.get(kind, 'entries')}"
    if bound := _BOUND.fullmatch(detail):
        return f"it must be {_COMPARED[bound[1]]} {bound[2]}"
    if kinds := _KINDS.fullmatch(detail):
        wanted, given = (_KIND_WORDS.get(each, each) for each in kinds.groups())
        return f"it is {given}, and must be {wanted}"
    return _MISMATCHES.get(detail, detail)
