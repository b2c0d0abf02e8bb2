"""A lock on a whole resource, with its queue in the order of logical clocks: the paper's local clocks.

Who cannot have the resource waits in order of timestamp. Whoever holds it, is younger than somebody who
waits, and does not use it yet, is asked to give it back and waits at its own place (Ramamoorthi et al.
1997, section 2, after Chandy and Misra 1988). The oldest request of all is never asked, so it gets all
that it wants, and there is no deadlock.
"""

from __future__ import annotations

import bisect
from typing import Literal, NamedTuple

Stamp = tuple[int, int]
"""A logical time and the number of who gave it: smaller is older."""


class Word(NamedTuple):
    """What the lock has to say to the request of this stamp."""

    kind: Literal["grant", "recall"]
    stamp: Stamp


class WholeLock:
    """`holder` has the resource; `waiting` are the stamps of those who want it, oldest first."""

    def __init__(self) -> None:
        self.holder: Stamp | None = None
        self.waiting: list[Stamp] = []
        self._recalled = False

    @property
    def blocks(self) -> bool:
        """Whether somebody has it and others want it."""
        return self.holder is not None and bool(self.waiting)

    def request(self, stamp: Stamp) -> list[Word]:
        bisect.insort(self.waiting, stamp)
        return self._go_on()

    def release(self, stamp: Stamp) -> list[Word]:
        """`stamp` needs the resource no more; raises `ValueError` when it does not hold it."""
        if self.holder != stamp:
            raise ValueError(f"{stamp} releases what {self.holder} holds")
        self.holder = None
        return self._go_on()

    def relinquish(self, stamp: Stamp) -> list[Word]:
        """`stamp` gives way to an older request, and waits again; raises `ValueError` as `release`."""
        if self.holder != stamp:
            raise ValueError(f"{stamp} gives back what {self.holder} holds")
        self.holder = None
        return self.request(stamp)

    def _go_on(self) -> list[Word]:
        if self.holder is None:
            if not self.waiting:
                return []
            self.holder = self.waiting.pop(0)
            self._recalled = False
            return [Word("grant", self.holder)]
        if self.waiting and self.waiting[0] < self.holder and not self._recalled:
            self._recalled = True
            return [Word("recall", self.holder)]
        return []
