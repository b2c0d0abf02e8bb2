"""The clocks of a node: monotonic time that starts anywhere and drifts, wall time that is wrong and jumps."""

from __future__ import annotations

from typing import Final

from kalends.core.intervals import Moment
from tests.simulation.kernel import Kernel

EPOCH_S: Final = 1_800_000_000
"""True wall time, in seconds, at the start of every simulation; a whole hour."""

SKEW_MS_MAX: Final = 5 * 60_000
"""Of one node to either side: two nodes are at most ten minutes apart."""

SLOWEST: Final = 0.9
FASTEST: Final = 1.1
"""Between these is the speed of every clock."""


class NodeClock:
    """`skew_ms` is how wrong the wall clock is; `rate` is the speed of both clocks."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.skew_ms = 0
        self._rate = 1.0
        self._base_ms = kernel.random.randrange(1, 10_000_000)
        self._since_ms = kernel.now_ms

    def moment(self) -> Moment:
        true_ms = EPOCH_S * 1000 + self._kernel.now_ms
        return Moment(self._monotonic_ms(), true_ms + self.skew_ms)

    def until(self, monotonic_ms: int) -> int:
        """How long, in true milliseconds, until the monotonic clock shows `monotonic_ms`."""
        return max(0, int((monotonic_ms - self._monotonic_ms()) / self._rate) + 1)

    def drift(self, rate: float) -> None:
        self._base_ms = self._monotonic_ms()
        self._since_ms = self._kernel.now_ms
        self._rate = rate

    def boot(self) -> None:
        """Monotonic time begins anew, anywhere."""
        self._base_ms = self._kernel.random.randrange(1, 10_000_000)
        self._since_ms = self._kernel.now_ms

    def heal(self) -> None:
        self.drift(1.0)
        self.skew_ms = 0

    def _monotonic_ms(self) -> int:
        return self._base_ms + int((self._kernel.now_ms - self._since_ms) * self._rate)
