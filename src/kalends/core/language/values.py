"""Values in comparisons: numbers, booleans, words and quoted text, read and written."""

from __future__ import annotations

import math
import re
from typing import Final

from kalends.core.language.scanner import Scanner
from kalends.core.resources import AttributeValue

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?(?![A-Za-z0-9_./-])")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_AMOUNT = re.compile(r"([0-9.]+)[A-Za-z]+")

_INSIDE: Final = (
    r"[^{quote}\\\x00-\x1f\x7f\ud800-\udfff]"  # anything plain
    r"|\\[\"'\\nrt]"
    r"|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{{4}}"
)
_QUOTED: Final = {
    quote: re.compile(f"{quote}((?:{_INSIDE.format(quote=quote)})*){quote}") for quote in "\"'"
}
_ESCAPE = re.compile(r"\\(?:u(....)|(.))")
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}
_WRITTEN: Final = {
    **{code: f"\\u{code:04x}" for code in (*range(32), 127)},
    ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t",
}  # fmt: skip


def read_value(scanner: Scanner, name: str, operator: str) -> AttributeValue:
    """Return the next value; `name` and `operator` before it are for the advice in errors."""
    start = scanner.skip_spaces()
    quote = scanner.text[start : start + 1]
    if quote in _QUOTED:
        return _read_quoted(scanner, quote)
    if (number := read_number(scanner)) is not None:
        return number
    if word := scanner.take(_WORD):
        return {"true": True, "false": False}.get(word[0], word[0])
    remedy = f'write {name}{operator}64, {name}{operator}sgi or {name}{operator}"any text"'
    found = scanner.found
    if amount := _AMOUNT.fullmatch(found):
        remedy = (
            f"write {name}{operator}{amount[1]} in the unit that the owner lists, "
            f'or "{found}" for text'
        )
    elif found[:1].isalnum():
        remedy = f'write "{found}" in quotes if it is text'
    raise scanner.expected("a number, a word or quoted text", remedy)


def read_number(scanner: Scanner) -> int | float | None:
    """Return the next number, whole unless it has a point or an exponent; None if none comes next."""
    start = scanner.skip_spaces()
    match = scanner.take(_NUMBER)
    if match is None:
        return None
    number = float(match[0]) if match[1] or match[2] else int(match[0])
    if isinstance(number, float) and not math.isfinite(number):
        raise scanner.error("this number is too large", remedy="use a larger unit", at=start)
    if isinstance(number, int) and not -(1 << 63) <= number < 1 << 63:
        raise scanner.error(
            "this number has more than 64 bits", remedy="use a larger unit", at=start
        )
    return number


def format_value(value: AttributeValue) -> str:
    """Return the text that `read_value` reads as exactly `value`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    if _WORD.fullmatch(value) and value not in ("true", "false"):
        return value
    return f'"{value.translate(_WRITTEN)}"'


def format_weight(weight: float) -> str:
    """Return the shortest text that `read_number` reads as a number equal to `weight`."""
    return repr(weight).removesuffix(".0")


def _read_quoted(scanner: Scanner, quote: str) -> str:
    match = scanner.take(_QUOTED[quote])
    if match is None:
        raise scanner.error(
            "this quoted text does not end, or holds a character that must be escaped",
            remedy=f"end it with {quote}; inside write \\{quote} \\\\ \\n \\t or \\u0007",
        )
    return _ESCAPE.sub(_unescaped, match[1])


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _ESCAPED.get(escape[2], escape[2])
