"""Times in an arithmetic progression, such as those on a resource's grain."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import NamedTuple


class Beat(NamedTuple):
    """The times that leave `remainder` when divided by `modulus`."""

    modulus: int
    remainder: int

    def hits(self, time_s: int) -> bool:
        return time_s % self.modulus == self.remainder

    def next(self, time_s: int) -> int:
        """Return the first time of the beat at or after `time_s`."""
        return time_s + (self.remainder - time_s) % self.modulus

    def number_in(self, first: int, last: int) -> int:
        """Count the times of the beat between the two, both included."""
        before = (first - 1 - self.remainder) // self.modulus
        return (last - self.remainder) // self.modulus - before

    def both(self, other: Beat) -> Beat | None:
        """Return the times of both beats, again a beat (Chinese remainder theorem).

        None when they never meet.
        """
        common = gcd(self.modulus, other.modulus)
        apart = other.remainder - self.remainder
        if apart % common:
            return None
        ours, theirs = self.modulus // common, other.modulus // common
        strides = apart // common * pow(ours, -1, theirs) % theirs
        modulus = ours * other.modulus
        return Beat(modulus, (self.remainder + self.modulus * strides) % modulus)


EVERY_SECOND = Beat(1, 0)


def joint(beats: Iterable[Beat | None]) -> Beat | None:
    """Return the times of all `beats`, every second without any; None when they never meet."""
    met: Beat | None = EVERY_SECOND
    for beat in beats:
        met = met.both(beat) if met is not None and beat is not None else None
    return met
