"""Texts from outside in error messages: whole if they are short, else with a mark where they are cut."""

from __future__ import annotations

from typing import Final

CHARACTERS_MAX: Final = 160
"""More than anything meant has; a message stays readable with it."""


def excerpt(text: str) -> str:
    """Return `text`, or its beginning and ``...`` if it is longer than `CHARACTERS_MAX`."""
    return text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]}..."
