"""Answers of what is asynchronous by its contract, without a wait: for worlds without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def at_once(asked: Coroutine[Any, Any, T]) -> T:
    """Return the answer. Raises `RuntimeError` where it has to be waited for."""
    try:
        asked.send(None)
    except StopIteration as answer:
        result: T = answer.value
        return result
    asked.close()
    raise RuntimeError("it does not answer at once")
