"""Texts from outside in error messages: whole if short, otherwise cut with a mark."""

from __future__ import annotations

from typing import Final

CHARACTERS_MAX: Final = 160
"""Longer than any intended text, but a message with it is still readable."""


def excerpt(text: str) -> str:
    """Return `text`, or its beginning and ``...`` if it is longer than `CHARACTERS_MAX`."""
    return text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]}..."
