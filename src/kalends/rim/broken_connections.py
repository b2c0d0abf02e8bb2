"""Why a connection broke, in words for people: what libraries call it says nothing to them."""

from __future__ import annotations

from typing import Final

BROKE: Final = "the connection broke, or nothing was heard on it for too long"
"""Also after a computer was suspended: both sides have given the connection up in the meantime."""


def broken_words(error: BaseException) -> str:
    """Return what is said of `error`: its own text, unless that is empty or about Python's own objects."""
    said = str(error)
    return BROKE if not said or isinstance(error, TimeoutError | ConnectionError) else said
