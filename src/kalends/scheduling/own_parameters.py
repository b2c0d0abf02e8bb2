"""Parameters of a user's own policy in its name: ``module:Class:3:share=0.5``.

The parameters are those of the class's constructor after the cluster. Annotations give the types, or else
the defaults. Without either, a word that looks like a number is one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from inspect import Parameter
from math import isfinite
from typing import Any, Final, NoReturn, get_args, get_type_hints

import msgspec

from kalends.core.errors import InvalidInput
from kalends.core.excerpts import excerpt
from kalends.core.near_names import near

_STARS: Final[dict[Any, str]] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
_IN_ORDER: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_SIMPLE: Final = (bool, int, float, str)
_UNKNOWN: Final = object()
"""The type of a parameter that has neither an annotation nor a simple default."""

_SAID: Final = {int: "a whole number", float: "a number", bool: "true or false"}


class OwnParameter(msgspec.Struct, frozen=True):
    """One parameter of a class: its name, type and default as a user would write them."""

    name: str
    type: str
    default: str | None = None
    """None: it must be given."""

    @property
    def shown(self) -> str:
        """The parameter as in a signature."""
        return f"{self.name}: {self.type}" + ("" if self.default is None else f" = {self.default}")


class OwnParameters:
    """The parameters of the class or function `make`, without the cluster; `text` is the policy's name."""

    def __init__(self, make: Callable[..., Any], text: str) -> None:
        self._text = excerpt(text)
        self._types = _hints(make)
        try:
            parameters = list(inspect.signature(make).parameters.values())
        except (TypeError, ValueError):  # Some of Python's own classes have no signature.
            parameters = []
        if parameters and parameters[0].kind != Parameter.VAR_POSITIONAL:
            del parameters[0]
        self._ordered = [each for each in parameters if each.kind in _IN_ORDER]
        self._named = {each.name: each for each in parameters if each.kind in _BY_NAME}
        kinds = {each.kind: each for each in parameters}
        self._more = kinds.get(Parameter.VAR_POSITIONAL)
        self._others = kinds.get(Parameter.VAR_KEYWORD)

    def listed(self) -> list[OwnParameter]:
        """Return the parameters of the class, in order."""
        more = [each for each in (self._more, self._others) if each is not None]
        everything = dict.fromkeys([*self._ordered, *self._named.values(), *more])
        return [
            OwnParameter(
                _STARS.get(each.kind, "") + each.name,
                _name_of(self._type(each)),
                None if each.default is Parameter.empty else _word_of(each.default),
            )
            for each in everything
        ]

    def given(self, words: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
        """Return the values of `words`, in order and by name.

        Raises `InvalidInput` for a word too many or of the wrong type, an unknown or repeated name, and a
        missing parameter without a default.
        """
        in_order: list[Any] = []
        by_name: dict[str, Any] = {}
        for word in words:
            name, equals, value = word.partition("=")
            if equals and name.isidentifier():
                taken = [each.name for each in self._ordered[: len(in_order)]]
                if name in by_name or name in taken:
                    self._refuse(f"{name} is given twice")
                by_name[name] = self._value(self._by_name(name), value)
            elif by_name:
                self._refuse(f"{excerpt(word)!r} comes after a parameter with a name")
            else:
                in_order.append(self._value(self._next(len(in_order), word), word))
        self._check_all_given(len(in_order), by_name)
        return in_order, by_name

    def _next(self, at: int, word: str) -> Parameter:
        if at < len(self._ordered):
            return self._ordered[at]
        if self._more is None:
            self._refuse(f"{excerpt(word)!r} is a parameter too many")
        return self._more

    def _by_name(self, name: str) -> Parameter:
        found = self._named.get(name) or self._others
        if found is None:
            meant = near(name[:80], self._named)
            self._refuse(f"has no parameter {excerpt(name)}{'; ' * bool(meant)}{meant}")
        return found

    def _check_all_given(self, in_order: int, by_name: Mapping[str, Any]) -> None:
        taken = {each.name for each in self._ordered[:in_order]} | by_name.keys()
        for each in [*self._ordered, *self._named.values()]:
            if each.default is Parameter.empty and each.name not in taken:
                self._refuse(f"needs {each.name}")

    def _value(self, parameter: Parameter, word: str) -> Any:
        wanted = self._type(parameter)
        if wanted is _UNKNOWN:
            return _as_it_reads(word)
        try:
            value = msgspec.convert(word, wanted, strict=False)
        except (msgspec.ValidationError, TypeError):
            self._refuse(f"{excerpt(word)!r} is not {_article(wanted)}, for {parameter.name}")
        if isinstance(value, float) and not isfinite(value):
            self._refuse(f"{excerpt(word)!r} is not a finite number, for {parameter.name}")
        return value

    def _type(self, parameter: Parameter) -> Any:
        if parameter.name in self._types:
            return self._types[parameter.name]
        if type(parameter.default) in _SIMPLE:
            return type(parameter.default)
        return _UNKNOWN

    def _refuse(self, detail: str) -> NoReturn:
        shown = ", ".join(each.shown for each in self.listed())
        takes = f"it takes {shown}" if shown else "it takes no parameters"
        module, name, *_ = [*self._text.split(":"), ""]
        raise InvalidInput(
            detail,
            where=f"policy {self._text}",
            remedy=f"{takes}: write {module}:{name}{':VALUE or :NAME=VALUE' if shown else ''}",
        )


def _hints(make: Callable[..., Any]) -> dict[str, Any]:
    called = getattr(make, "__init__") if isinstance(make, type) else make  # noqa: B009
    try:
        return get_type_hints(called)
    except Exception:  # An annotation may name a type that exists only for a type checker.
        return {
            name: kind
            for name, kind in getattr(called, "__annotations__", {}).items()
            if kind in _SIMPLE
        }


def _as_it_reads(word: str) -> int | float | str:
    for kind in (int, float):
        with suppress(msgspec.ValidationError):
            value: int | float = msgspec.convert(word, kind, strict=False)
            return value
    return word


def _name_of(kind: Any) -> str:
    if kind is _UNKNOWN:
        return "number or text"
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")


def _article(kind: Any) -> str:
    if kind in _SAID:
        return _SAID[kind]
    chosen = get_args(kind)
    if chosen and all(isinstance(each, str) for each in chosen):
        return f"one of {', '.join(chosen)}"
    return f"of the type {_name_of(kind)}"


def _word_of(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
