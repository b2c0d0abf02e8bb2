"""Results that may leave a run: plain data of exact types, of bounded depth, count and size.

Exact, because the receiver trusts the types; bounded, because it is stored and sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from kalends.agents.language import limits
from kalends.agents.language.meter import Meter
from kalends.agents.language.values import kind

_INTEGER_BITS: Final = 64


class NotPlain(Exception):
    """Data that cannot be handed over; `code` is the code of a run with such an answer."""

    code: str = "bad-result"


class TooMuch(NotPlain):
    """Data that is too deep, too long, or has too many items."""

    code = "limit-output"


class _Allowance:
    """The remaining allowance; packed sizes are upper bounds of MessagePack's."""

    def __init__(self, size_bytes: int) -> None:
        self.items = limits.ANSWER_ITEMS_MAX
        self.size_bytes = size_bytes

    def take(self, size_bytes: int) -> None:
        self.items -= 1
        self.size_bytes -= size_bytes
        if self.items < 0:
            raise TooMuch(f"more than {limits.ANSWER_ITEMS_MAX:,} items in all")
        if self.size_bytes < 0:
            raise TooMuch("too much data in all")


def plain_answer(value: Any) -> Any:
    """Return a copy of `value`, with lists for tuples. Raises `NotPlain`, or `TooMuch`."""
    return _plain(value, 1, _Allowance(limits.ANSWER_BYTES_MAX))


def copied_message(meter: Meter, value: Any) -> Any:
    """Return a copy of a message, paid for.

    Raises `ValueError` where it is not plain, or too long as JSON.
    """
    allowance = _Allowance(limits.MESSAGE_CHARS_MAX)
    try:
        copy = _plain(value, 1, allowance)
        if len(json.dumps(copy, ensure_ascii=False)) > limits.MESSAGE_CHARS_MAX:
            raise TooMuch(f"more than {limits.MESSAGE_CHARS_MAX:,} characters")
    except NotPlain as error:
        raise ValueError(f"a message is short, plain data: {error}") from error
    meter.charge(limits.ANSWER_ITEMS_MAX - allowance.items)
    return copy


def copied(value: Any) -> Any:
    """Return a copy of what a host hands to a script, so that the script changes nothing of the host's."""
    if isinstance(value, Mapping):
        return {name: copied(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [copied(one) for one in value]
    return value


def _plain(value: Any, depth: int, allowance: _Allowance) -> Any:
    if value is None or type(value) is bool:
        allowance.take(1)
        return value
    if type(value) is int:
        allowance.take(9)
        return _integer(value)
    if type(value) is float:
        allowance.take(9)
        if not isfinite(value):
            raise NotPlain(f"{value} is not a finite number")
        return value
    if type(value) is str:
        return _text(value, allowance)
    if type(value) in (list, tuple, dict) and depth > limits.ANSWER_DEPTH_MAX:
        raise TooMuch(f"nested deeper than {limits.ANSWER_DEPTH_MAX}")
    if type(value) in (list, tuple):
        allowance.take(5)
        return [_plain(one, depth + 1, allowance) for one in value]
    if type(value) is dict:
        allowance.take(5)
        return {
            _name(name, allowance): _plain(one, depth + 1, allowance) for name, one in value.items()
        }
    raise NotPlain(f"{kind(value)} cannot be handed over")


def _integer(value: int) -> int:
    if not -(1 << (_INTEGER_BITS - 1)) <= value < 1 << (_INTEGER_BITS - 1):
        raise NotPlain("an integer of more than 64 bits")
    return value


def _text(value: str, allowance: _Allowance) -> str:
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError as error:
        raise NotPlain("half of a surrogate pair in a text") from error
    if size_bytes > limits.ANSWER_TEXT_BYTES_MAX:
        raise TooMuch(f"a text of more than {limits.ANSWER_TEXT_BYTES_MAX:,} bytes")
    allowance.take(5 + size_bytes)
    return value


def _name(value: Any, allowance: _Allowance) -> str:
    if type(value) is not str:
        raise NotPlain(f"the keys of a dict are texts, not {kind(value)}")
    return _text(value, allowance)
