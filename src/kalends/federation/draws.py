"""Draws that follow from a request: random to an observer, and the same in every replay."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from itertools import count
from typing import Final

Draw = Callable[[int], int]
"""Called with n it draws one of 0 to n - 1, each as likely as the others."""

DIGEST_BYTES: Final = 8


def number_of(*words: object) -> int:
    """Return a number of 64 bits that hangs on the words, and is otherwise as if drawn.

    Python's own hash of a text differs from one process to the next.
    """
    text = " ".join(map(str, words))
    return int.from_bytes(blake2b(text.encode(), digest_size=DIGEST_BYTES).digest(), "big")


def draw_of(rid: str, attempt: int) -> Draw:
    """Return the draws of one attempt of a request: others at the next attempt."""
    numbers = count()
    return lambda bound: number_of(rid, attempt, next(numbers)) % bound
