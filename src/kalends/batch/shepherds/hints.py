"""Hints: a shepherd tells the server that there is something to look at. They may be lost or repeated.

A hint is text, ``JOB.ATTEMPT RANKS``. It says no more than which record to read, or, with `RANKS` above 0,
how many ranks the program would like to go on with.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kalends.batch.shepherds.folders import is_name

HINT_BYTES_MAX: Final = 64


class Hint(NamedTuple):
    """There is news of the attempt `name`; of its wish for `ranks`, if that is above 0."""

    name: str
    ranks: int = 0


def encode_hint(hint: Hint) -> bytes:
    return f"{hint.name} {hint.ranks}".encode()


def decode_hint(data: bytes) -> Hint:
    """Return the hint in `data`; raises `ValueError` for what is none."""
    name, ranks = data.decode("ascii").split(" ")
    if not is_name(name) or not ranks.isdecimal():
        raise ValueError("not a hint")
    return Hint(name, int(ranks))
