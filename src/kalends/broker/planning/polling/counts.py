"""Counts of candidates known to be available, as the answers of sites come in.

For many points of time at once, and for polls that begin at different sites: the chances of each count,
up to the number that is needed. Sites answer independently, and so are their resources taken; then the
chances of a sum are a convolution, one site at a time. Nothing is drawn at random.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import NamedTuple

import numpy as np

from kalends.broker.planning.polling.delays import Cells, Delay, Floats


class Prospect(NamedTuple):
    """A site with serving `resources`, each taken with probability `busy`.

    `asked`: it gets a message in any case, or has one already: asking costs nothing more.
    """

    site: str
    resources: int
    busy: float
    delay: Delay
    asked: bool = False


class Counts:
    """The counts of `rows` polls whose sites are added one by one; they end at `needed`.

    Row r takes part in what is added to it, so that it can stand for a poll that begins later.
    """

    def __init__(self, rows: int, needed: int, cells: Cells) -> None:
        size = len(cells.middles_ms)
        self._needed = needed
        self._cells = cells
        self._available = np.zeros((rows, size, needed + 1))
        self._available[:, :, 0] = 1.0
        self._answered = np.ones((rows, size))
        """The chance that all have answered."""
        self.found = np.zeros((rows, needed + 1))
        """The chances of each count once all have answered; the last entry is for `needed` or more."""
        self.found[:, 0] = 1.0

    def add(self, prospect: Prospect, rows: int) -> None:
        """Add `prospect` to the first `rows` polls."""
        free = free_chances(prospect, self._needed)
        reached = _reached(prospect.delay, self._cells.middles_ms.tobytes())
        known = reached[:, None] * free
        known[:, 0] += 1 - reached
        self._available[:rows] = _sum(self._available[:rows], known)
        self._answered[:rows] *= reached
        self.found[:rows] = _sum(self.found[:rows], free[None, :])

    def over_ms(self, rows: int) -> Floats:
        """Return the expected time until 1, 2, ... `needed` are available or all have answered.

        All answers being in says nothing of what they are, so that both chances multiply.
        """
        lacking = 1 - _tails(self._available[:rows])
        failed = 1 - _tails(self.found[:rows])
        open_chances = lacking - self._answered[:rows, :, None] * failed[:, None, :]
        over_ms: Floats = np.einsum("g,rgn->rn", self._cells.widths_ms, open_chances)
        return over_ms

    def success_ms(self) -> Floats:
        """Return the expected time until `needed` are available, given that they are, by row."""
        chance = self.found[:, -1:]
        missing = 1 - self._available[:, :, -1] / np.maximum(chance, 1e-300)
        return np.maximum(missing, 0.0) @ self._cells.widths_ms


@lru_cache(maxsize=1_024)
def _reached(delay: Delay, middles_ms: bytes) -> Floats:
    """Return the probabilities that the answer is there in the middle of each cell."""
    return np.array([delay.reached(ms) for ms in np.frombuffer(middles_ms)])


def free_chances(prospect: Prospect, count_max: int) -> Floats:
    """Return the probabilities of 0, 1, ... free resources; the last is for more, too."""
    free = 1 - prospect.busy
    of = prospect.resources
    if of <= count_max:
        exact = [comb(of, n) * free**n * prospect.busy ** (of - n) for n in range(of + 1)]
        return np.array(exact)
    fewer = [comb(of, n) * free**n * prospect.busy ** (of - n) for n in range(count_max)]
    return np.array([*fewer, max(1 - sum(fewer), 0.0)])


def _sum(counts: Floats, more: Floats) -> Floats:
    """Return the distribution of the sum of two independent counts, cut at the last entry."""
    size = counts.shape[-1]
    total = counts * more[..., 0, None]
    for count in range(1, more.shape[-1]):
        chance = more[..., count]
        total[..., count:] += counts[..., : size - count] * chance[..., None]
        total[..., -1] += counts[..., size - count :].sum(axis=-1) * chance
    return total


def _tails(counts: Floats) -> Floats:
    """Return the probabilities of at least 1, 2, ... from those of exactly 0, 1, 2, ..."""
    return np.cumsum(counts[..., :0:-1], axis=-1)[..., ::-1]
