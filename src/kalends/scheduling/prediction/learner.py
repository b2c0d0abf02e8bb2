"""P50 and P90 of waits: outcomes of earlier predictions show how far to trust the next one.

There are two predicted waits: one with requested times as run times, one with learned ones. The real wait
becomes a *score*: 0 is the learned prediction and 1 the requested one, on a logarithmic scale. Predictions of
about the same length, uncertainty and number of nodes share one distribution of scores (as in QBETS by size:
Nurmi, Brevik and Wolski 2008). Scores of waiting jobs are open, and known to exceed the wait so far. Only the
past is ever used.

P90 is half-way between the learned score and the requested one. Few scores decide about a 90 % quantile, so
the learned one is unsteady; the mean of two values with different errors errs less (Bates and Granger 1969).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from math import exp, inf, log
from typing import Final

import msgspec

SHARES: Final = (0.5, 0.9)
"""Shares of waiting jobs that the bounds promise to have started by then."""

GAINS: Final = (0.01, 0.002)
"""Steps of their levels for one outcome. P90 has the smaller one: its misses come in bursts of short jobs."""

WINDOW: Final = 200
"""Number of last scores of a class that count."""

KNOWN_MIN: Final = 20
"""Fewest scores of a class to learn from; with fewer the bounds are the two predicted waits."""

FLOOR_S: Final = 60
"""Added to waits before ratios are taken, so that seconds do not count as much as hours."""

DOUBT_MIN: Final = 0.4
"""The least logarithmic distance of the two predictions on the scale of scores."""

RATIO_MAX: Final = 2
"""Maximum bound, as a multiple of the longer of the two predictions."""


Kind = tuple[int, int, int]


class WaitHistory(msgspec.Struct, frozen=True):
    """The waits of one job from now on, by the frozen scheduler."""

    expected_s: int
    """Wait with learned run times."""
    requested_s: int
    """Wait with requested times."""
    nodes: int

    @property
    def kinds(self) -> tuple[Kind, Kind]:
        """The classes, the finer first: length (in powers of 4) and doubt, with nodes (of 2) and without."""
        expected, requested = self.expected_s + FLOOR_S, self.requested_s + FLOOR_S
        doubt = (4 * requested > 5 * expected) + (requested > 2 * expected)
        kind = (expected // FLOOR_S).bit_length() // 2, doubt + (requested > 5 * expected)
        return (*kind, self.nodes.bit_length()), (*kind, 0)

    def score(self, wait_s: int) -> float:
        """Return the place of a wait: 0 at the expected one, 1 at the requested one."""
        return log((wait_s + FLOOR_S) / (self.expected_s + FLOOR_S)) / self._doubt()

    def wait_s(self, score: float) -> int:
        """Return the wait of a score, to the second below.

        At least 0, at most `RATIO_MAX` times the longer.
        """
        most = RATIO_MAX * (max(self.expected_s, self.requested_s) + FLOOR_S)
        reach = score * self._doubt() + log(self.expected_s + FLOOR_S)
        return max(int(exp(min(reach, log(most)))) - FLOOR_S, 0)

    def _doubt(self) -> float:
        ratio = (self.requested_s + FLOOR_S) / (self.expected_s + FLOOR_S)
        return max(abs(log(ratio)), DOUBT_MIN)


class Learner:
    """A learner from predictions and their outcomes, whose bounds hold as often as they promise.

    Times never go back. Facts are used only from the time on at which they are known.
    """

    def __init__(self) -> None:
        self.levels = tuple(map(AdaptiveLevel, SHARES, GAINS))
        self._classes: dict[Kind, _JobClass] = {}
        self._open: dict[int, _Open] = {}
        self._bounds: list[tuple[int, int, int]] = []
        """Heap of ``(bound_s, number, which share)``."""

    def bounds(self, waits: WaitHistory, now: int) -> tuple[int, ...]:
        """Return a start for each of `SHARES`, as far as is known now, ascending. Changes nothing."""
        classes = [self._classes[kind] for kind in waits.kinds if kind in self._classes]
        found = next((each for each in classes if len(each.ascending) >= KNOWN_MIN), None)
        if found is None:
            longer_s = max(waits.expected_s, waits.requested_s)
            return now + waits.expected_s, now + longer_s
        at_least = sorted([each.waits.score(now - each.made_s) for each in found.open.values()])
        p50, p90 = (
            censored_quantile(found.ascending, at_least, each.level) for each in self.levels
        )
        p50_s = waits.wait_s(p50)
        p90_s = waits.wait_s((p90 + waits.score(waits.requested_s)) / 2)
        return now + p50_s, now + max(p50_s, p90_s)

    def predict(self, number: int, waits: WaitHistory, now: int) -> tuple[int, ...]:
        """Return the bounds for a job that begins to wait; their outcome will be learned."""
        self.advance(now)
        bounds = self.bounds(waits, now)
        kept = _Open(now, waits, bounds)
        self._open[number] = kept
        for kind in waits.kinds:
            self._classes.setdefault(kind, _JobClass()).open[number] = kept
        for which, bound_s in enumerate(bounds):
            heappush(self._bounds, (bound_s, number, which))
        return bounds

    def started(self, number: int, now: int) -> None:
        """Note that a job has started: bounds not yet passed have held."""
        self.advance(now)
        kept = self._open.get(number)
        if kept is None:
            return
        for which, bound_s in enumerate(kept.bounds):
            if bound_s >= now:
                self.levels[which].learn(True)
        self.withdrawn(number)
        for kind in kept.waits.kinds:
            self._classes[kind].learn(kept.waits.score(now - kept.made_s))

    def withdrawn(self, number: int) -> None:
        """Learn nothing more from a job that was withdrawn."""
        kept = self._open.pop(number, None)
        if kept is not None:
            for kind in kept.waits.kinds:
                del self._classes[kind].open[number]

    def advance(self, now: int) -> None:
        """Note that bounds before `now` of jobs that still wait have failed."""
        while self._bounds and self._bounds[0][0] < now:
            _, number, which = heappop(self._bounds)
            if number in self._open:
                self.levels[which].learn(False)


class _Open(msgspec.Struct, frozen=True):
    """A prediction whose outcome is not known yet."""

    made_s: int
    waits: WaitHistory
    bounds: tuple[int, ...]


class _JobClass:
    """The last scores of one class, and its open predictions."""

    __slots__ = ("_recent", "ascending", "open")

    def __init__(self) -> None:
        self.open: dict[int, _Open] = {}
        self.ascending: list[float] = []
        self._recent: deque[float] = deque()

    def learn(self, score: float) -> None:
        self._recent.append(score)
        insort(self.ascending, score)
        if len(self._recent) > WINDOW:
            del self.ascending[bisect_left(self.ascending, self._recent.popleft())]


LEVEL_MIN: Final = 0.001
LEVEL_MAX: Final = 0.999


def censored_quantile(known: Sequence[float], at_least: Sequence[float], level: float) -> float:
    """Return the `level` quantile of values of which some are `known`, and others known to exceed `at_least`.

    Both ascending. The product limit of Kaplan and Meier 1958: an open value counts among those at risk up to
    the value that it has reached. Infinite if the known values do not reach the level.
    """
    at_risk = len(known) + len(at_least)
    surviving, opened = 1.0, 0
    for passed, value in enumerate(known):
        while opened < len(at_least) and at_least[opened] < value:
            opened += 1
        surviving *= 1 - 1 / (at_risk - passed - opened)
        if 1 - surviving >= level - 1e-12:
            return value
    return inf


class AdaptiveLevel:
    """The level at which to read a distribution, so that `share` of the outcomes stay within.

    Adaptive conformal inference (Gibbs and Candes 2021): every outcome beyond the bound raises the
    level, every one within lowers it, in the ratio that balances at `share`. Whatever the outcomes are,
    the share that was within then differs from `share` by at most about 1 / (gain x outcomes), as long as a
    bound can be far enough away at all. `gain` is the step for one outcome.
    """

    __slots__ = ("gain", "level", "share")

    def __init__(self, share: float, gain: float) -> None:
        self.share = share
        self.gain = gain
        self.level = share

    def learn(self, within: bool) -> None:
        """Learn from a known outcome."""
        level = self.level + self.gain * (self.share - within)
        self.level = min(max(level, LEVEL_MIN), LEVEL_MAX)
