"""Methods of text, which pay for their work.

What they take is checked here, because Pythons differ in what they take for true, and in what they say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kalends.agents.language import limits
from kalends.agents.language.meter import Meter
from kalends.agents.language.operators import Guard
from kalends.agents.language.values import fitting, items_of, kind

Paid = Callable[[str, tuple[Any, ...], Guard], Any]
"""Calls a method of this text, for what is sought in it, once that is paid for; so is its result."""


def text_methods(meter: Meter) -> dict[str, Guard]:
    """Return every name of `vocabulary.STR_METHODS`."""

    def paid(text: str, sought: tuple[Any, ...], call: Guard) -> Any:
        meter.charge_text(len(text) * (1 + sum(map(_size, sought))))
        result = call()
        if type(result) is list:
            meter.charge(len(result))
        elif type(result) is str:
            fitting(len(result))
        return result

    return {
        **{name: _plain(paid, name, 1) for name in ("isalpha", "isdigit")},
        **{name: _plain(paid, name, limits.CASE_STEPS) for name in ("lower", "upper")},
        **{name: _searching(paid, name) for name in ("count", "find", "rfind")},
        **{name: _ending(paid, name) for name in ("startswith", "endswith")},
        **{name: _stripping(paid, name) for name in ("strip", "lstrip", "rstrip")},
        **{name: _cutting(paid, name) for name in ("partition", "removeprefix", "removesuffix")},
        **{name: _splitting(paid, name) for name in ("split", "rsplit")},
        "splitlines": _splitlines(paid),
        "join": _join(meter),
        "replace": _replace(meter),
    }


def _size(value: Any) -> int:
    """Return the worst number of comparisons of each character in a search for `value`."""
    if type(value) is tuple:
        return len(value) + sum(len(one) for one in value if type(one) is str)
    return len(value) if type(value) is str else 0


def _text(name: str, value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{name} takes texts, not {kind(value)}")
    return value


def _integer(name: str, value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{name} counts in integers, not {kind(value)}")
    return value


def _bounds(name: str, *several: Any) -> list[int | None]:
    return [None if one is None else _integer(name, one) for one in several]


def _plain(paid: Paid, name: str, passes: int) -> Guard:
    """Return a method without arguments, at the price of `passes` over text that is not ASCII."""
    native = getattr(str, name)

    def guard(text: str, /) -> Any:
        more = () if text.isascii() else (text[: passes - 1],)
        return paid(text, more, lambda: native(text))

    return guard


def _searching(paid: Paid, name: str) -> Guard:
    native = getattr(str, name)

    def guard(text: str, sought: Any, start: Any = None, end: Any = None, /) -> Any:
        return paid(
            text, (sought,), lambda: native(text, _text(name, sought), *_bounds(name, start, end))
        )

    return guard


def _ending(paid: Paid, name: str) -> Guard:
    """Return a method that takes one text, or a tuple of which one will do."""
    native = getattr(str, name)

    def guard(text: str, sought: Any, start: Any = None, end: Any = None, /) -> Any:
        def call() -> Any:
            for one in sought if type(sought) is tuple else (sought,):
                _text(name, one)
            return native(text, sought, *_bounds(name, start, end))

        return paid(text, (sought,), call)

    return guard


def _stripping(paid: Paid, name: str) -> Guard:
    native = getattr(str, name)

    def guard(text: str, characters: Any = None, /) -> Any:
        if characters is not None:
            _text(name, characters)
        return paid(text, (characters,), lambda: native(text, characters))

    return guard


def _cutting(paid: Paid, name: str) -> Guard:
    native = getattr(str, name)

    def guard(text: str, part: Any, /) -> Any:
        return paid(text, (part,), lambda: native(text, _text(name, part)))

    return guard


def _splitting(paid: Paid, name: str) -> Guard:
    native = getattr(str, name)

    def guard(text: str, /, sep: Any = None, maxsplit: Any = -1) -> Any:
        if sep is not None:
            _text(name, sep)
        most = max(-1, min(_integer(name, maxsplit), len(text)))
        return paid(text, (sep,), lambda: native(text, sep, most))

    return guard


def _splitlines(paid: Paid) -> Guard:
    def guard(text: str, /, keepends: Any = False) -> Any:
        return paid(text, (), lambda: text.splitlines(bool(keepends)))

    return guard


def _join(meter: Meter) -> Guard:
    def join(text: str, parts: Any, /) -> str:
        found = items_of(meter, parts)
        for part in found:
            _text("join", part)
        size = sum(map(len, found)) + len(text) * max(0, len(found) - 1)
        meter.charge_text(fitting(size))
        return text.join(found)

    return join


def _replace(meter: Meter) -> Guard:
    def replace(text: str, old: Any, new: Any, count: Any = -1, /) -> str:
        _text("replace", old), _text("replace", new)
        most = _integer("replace", count)
        meter.charge_text(len(text) * (1 + _size(old)))
        found = text.count(old) if most < 0 else min(most, text.count(old))
        meter.charge_text(fitting(len(text) + found * (len(new) - len(old))))
        return text.replace(old, new, found)

    return replace
