"""Reasons for broken connections in plain words, instead of those of libraries."""

from __future__ import annotations

from typing import Final

BROKE: Final = "the connection broke, or nothing was heard on it for too long"
"""Reason if both sides gave up the connection, e.g. while a computer was suspended."""


def broken_words(error: BaseException) -> str:
    """Return the text of `error`, or a plain one if that is empty or about Python's own objects."""
    said = str(error)
    return BROKE if not said or isinstance(error, TimeoutError | ConnectionError) else said
