"""The times at which something is to be done for a request: one heap of the earliest of each."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from kalends.broker.coordination.transaction import Transaction
from kalends.core.intervals import Moment


class Deadlines:
    """`jitter` gives numbers in [0, 1). Stale entries do no harm: who is woken looks at its times."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        self._jitter = jitter
        self._due: list[tuple[int, str]] = []

    def later(self, now: Moment, after_ms: int) -> int:
        """Return a time `after_ms` from now, or up to a fifth later."""
        return now.monotonic_ms + int(after_ms * (1 + 0.2 * self._jitter()))

    def schedule(self, case: Transaction) -> None:
        """Wake `case` at the earliest of its times."""
        times = [t for t in (case.phase_deadline_ms, case.resend_at_ms) if t]
        if case.renew_at_ms and case.phase in ("holding", "held", "asking", "preparing"):
            times.append(case.renew_at_ms)
        if times:
            heapq.heappush(self._due, (min(times), case.rid))

    def wake(self, rid: str) -> None:
        """Wake `rid` at once."""
        heapq.heappush(self._due, (0, rid))

    def pop(self, now: Moment) -> str:
        """Return the next request whose time has come, or ""."""
        if self._due and self._due[0][0] <= now.monotonic_ms:
            return heapq.heappop(self._due)[1]
        return ""

    def next_ms(self) -> int | None:
        return self._due[0][0] if self._due else None
