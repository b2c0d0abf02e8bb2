"""Signatures of functions that pass options on: `help` and editors show each by its name and default."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def names_options(options: type, *takers: Callable[..., object]) -> Callable[[F], F]:
    """Return a decorator that shows the ``**options`` of a function by name, as `takers` have them.

    `options` is their `TypedDict`, by which type checkers know them.
    """
    named = [
        option
        for taker in takers
        for option in inspect.signature(taker).parameters.values()
        if option.name in options.__annotations__
    ]

    def decorate(call: F) -> F:
        signature = inspect.signature(call)
        own = list(signature.parameters.values())[:-1]
        call.__dict__["__signature__"] = signature.replace(parameters=[*own, *named])
        return call

    return decorate
