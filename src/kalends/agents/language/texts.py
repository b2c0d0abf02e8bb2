"""Guards of text: `str`, f-strings, and what an error says. Only single values have a text.

No text shows an address, an order that hangs on one, or a float in two ways: all are the same on
every host.
"""

from __future__ import annotations

import re
from typing import Any, Final

from kalends.agents.language import limits
from kalends.agents.language.meter import Meter
from kalends.agents.language.operators import Guard
from kalends.agents.language.values import NUMBERS, fitting, kind, ordinary

_SPECIFICATION: Final = re.compile(
    r"(?:.?[<>=^])?[-+ ]?z?#?0?(?P<width>[0-9]{0,4})[,_]?(?:\.(?P<precision>[0-9]{1,4}))?[bdoxXeEfFgGs%]?",
    re.DOTALL,
)
"""Python's format specifications, without `n` (the host's locale) and `c`."""


_DIGITS: Final = 17
"""Digits that tell every float from all others."""

_DIGITS_MAX: Final = 309
"""Digits of the largest float before its point."""


def printable(text: str, chars_max: int) -> str:
    """Return the beginning of `text`, on one line, with everything that does not print escaped.

    By `ascii`: a codec with a name would be imported on its first use, and a worker opens no files.
    """
    escaped = (c if c.isprintable() else ascii(c)[1:-1] for c in text[:chars_max])
    return "".join(escaped)[:chars_max]


def text_guards(meter: Meter) -> dict[str, Guard]:
    """Return `_text_` (also the builtin `str`), `_format_` and `_joined_`."""

    def text(value: Any = "", /) -> str:
        if type(value) is str:
            meter.charge(1)
            return value
        if type(value) not in NUMBERS:
            raise TypeError(f"{kind(value)} has no text; write out its items")
        meter.charge_text(200)
        return str(value)

    def formatted(value: Any, specification: str = "", /) -> str:
        if not specification:
            return text(value)
        match = _SPECIFICATION.fullmatch(specification)
        if match is None:
            raise ValueError("this format is not in the language")
        for number in match.groups():
            if number and int(number) > limits.FORMAT_WIDTH_MAX:
                raise ValueError(f"a format wider than {limits.FORMAT_WIDTH_MAX}")
        if type(value) is not str and type(value) not in NUMBERS:
            raise TypeError(f"{kind(value)} has no text; write out its items")
        meter.charge_text(200 + (len(value) if type(value) is str else 0))
        if type(value) is float:
            meter.charge(_digits_steps(value, int(match["precision"] or 0)))
        return format(value, specification)

    def joined(*parts: str) -> str:
        meter.charge_text(fitting(sum(map(len, parts))))
        return "".join(parts)

    return {"_text_": text, "_format_": formatted, "_joined_": joined}


def _digits_steps(value: float, precision: int) -> int:
    """Return the price of the digits that are not cheap: those beyond what a float means."""
    digits = max(0, precision - _DIGITS) + (0 if ordinary(value) else precision + _DIGITS_MAX)
    return limits.DIGIT_STEPS * digits
