"""The site itself, as its parts know it: its name, its epoch, its fence numbers."""

from __future__ import annotations

from typing import Final, NamedTuple

from kalends.core.errors import Refusal

SEQUENCE_BITS: Final = 40
"""Of a fence number: 10^12 claims between two restarts; the epoch is above."""


class ThisSite(NamedTuple):
    """`epoch` is higher than at any earlier start of the site."""

    name: str
    epoch: int

    def refusal(self, code: str, detail: str) -> Refusal:
        """Return a refusal in the name of the site."""
        return Refusal(where=self.name, code=code, detail=detail)


class FenceNumbers:
    """Numbers of claims, runs and relays: each is higher than all before, over restarts too."""

    def __init__(self, epoch: int) -> None:
        self._last = epoch << SEQUENCE_BITS

    def new(self) -> int:
        self._last += 1
        return self._last
