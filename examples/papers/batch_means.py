"""The precision of a simulated mean by batch means, and when to stop (Jain 1991, section 25.5.2).

What a simulation yields one after the other is correlated, so that the usual standard error is too
small. Means of long batches are nearly independent, and theirs is nearly right.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import pairwise
from math import inf, sqrt
from typing import Final

from kalends.core.errors import InvalidInput
from kalends.simulation.confidence import estimate

JOINED: Final = 4
"""Neighbouring batches joined for an interval, because longer ones are less correlated."""


class BatchMeans:
    """The mean of a series and its standard error, in memory that does not grow.

    Values go into batches of equal size, `batches` to ``2 * batches`` of them: when there are that many,
    neighbours are joined, and batches are twice as long from then on. Warm-up: the first eighth of
    `batches`, so between 1/16 and 1/8 of what has been seen, does not count, however long the run gets.
    """

    __slots__ = ("_filled", "_sum", "_sums", "batches", "size", "warm_up")

    def __init__(self, batches: int = 32, size: int = 64) -> None:
        if batches < 8 or size < 1:
            raise InvalidInput(
                f"{batches} batches of {size}",
                where="batches",
                remedy="give 8 or more, of 1 or more",
            )
        self.batches = batches
        self.size = size
        """Number of values in a batch."""
        self.warm_up = batches // 8
        """Number of batches at the beginning that do not count."""
        self._sums: list[float] = []
        self._sum: float = 0
        self._filled = 0

    def add(self, value: float) -> bool:
        """Take the next value; says whether a batch is full with it."""
        self._sum += value
        self._filled += 1
        if self._filled < self.size:
            return False
        sums = self._sums
        sums.append(self._sum)
        self._sum, self._filled = 0, 0
        if len(sums) == 2 * self.batches:
            self._sums = [a + b for a, b in zip(sums[::2], sums[1::2], strict=True)]
            self.size *= 2
        return True

    @property
    def count(self) -> int:
        """All values so far, those of the warm-up too."""
        return len(self._sums) * self.size + self._filled

    @property
    def enough(self) -> bool:
        """Whether there are batches enough to say anything."""
        return len(self._sums) >= self.batches

    @property
    def mean(self) -> float:
        """The mean of the full batches after the warm-up; of all values if there are none."""
        sums = self._sums[self.warm_up :]
        if sums:
            return sum(sums) / (len(sums) * self.size)
        return (sum(self._sums) + self._sum) / self.count if self.count else 0.0

    @property
    def standard_error(self) -> float:
        """The standard error of the mean; infinite below two batches."""
        means = self._means()
        if len(means) < 2:
            return inf
        middle = sum(means) / len(means)
        squares = sum((each - middle) ** 2 for each in means)
        return sqrt(squares / (len(means) - 1) / len(means))

    @property
    def correlation(self) -> float:
        """The correlation of neighbouring batches: near 0 if they are long enough."""
        means = self._means()
        middle = sum(means) / len(means) if means else 0.0
        squares = sum((each - middle) ** 2 for each in means)
        products = sum((a - middle) * (b - middle) for a, b in pairwise(means))
        return products / squares if squares else 0.0

    def half_width(self, level: float = 0.95) -> float:
        """Return the half-width of the mean's confidence interval of `level`.

        Right for long runs, too narrow for short ones, whose batches still hang together: for the
        response of M/M/4 from an empty start, intervals of 95 % held the true mean in 92 of 100 runs of
        4,000 jobs at a load of 0.7, in 85 at a load of 0.85, and there in 90 of 24,000 jobs.
        """
        means = self._means()
        joined = [
            sum(means[at : at + JOINED]) / JOINED
            for at in range(len(means) % JOINED, len(means), JOINED)
        ]
        half_width = estimate(joined, level).half_width if joined else None
        return inf if half_width is None else half_width

    def settled(self, share: float) -> bool:
        """Return whether the standard error is at most `share` of the mean, and can be believed.

        It can if there are batches enough, and no more correlated than independent ones are in 95 of 100
        runs.
        """
        if not self.enough or self.standard_error > share * abs(self.mean):
            return False
        return self.correlation <= 1.645 / sqrt(len(self._sums) - self.warm_up)

    def _means(self) -> list[float]:
        return [each / self.size for each in self._sums[self.warm_up :]]


class Steady:
    """Stop when every class and the whole are known well enough (Konuru, Moreira and Naik 1996: 0.01)."""

    def __init__(self, classes: Iterable[Hashable], share: float = 0.01) -> None:
        self.share = share
        self.whole = BatchMeans()
        self.classes = {each: BatchMeans() for each in classes}
        self._open = [self.whole, *self.classes.values()]

    def add(self, of: Hashable, value: float) -> bool:
        """Take the next value, of one class; says whether it is time to stop."""
        self.classes[of].add(value)
        if not self.whole.add(value):
            return False
        # Those that were not settled last are looked at first: mostly one look is enough.
        for at, each in enumerate(self._open):
            if not each.settled(self.share):
                self._open[0], self._open[at] = each, self._open[0]
                return False
        return True
