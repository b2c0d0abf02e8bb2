"""Bids that a site has lost, as brokers tell it: whether another bid for the same broker is hopeless.

"This information can be used by the other sites in making future scheduling decisions." (Weissman and
Grimshaw 1996, section 4.1.) A place in a queue costs a new plan. A site that has lost many bids in a row,
each by far, spares most of them for a while. The laws:

- What a broker tells counts for that broker's jobs alone, and is forgotten when the job that has won is over,
  or after `TOLD_MS_MAX`: a broker that tells lies has fewer bids, and nobody else has.
- One bid in `ONE_IN` is always made: what has changed is found again. A bid that has won, or has lost by
  little, ends it at once.
"""

from __future__ import annotations

from typing import Final

from kalends.core.durations import format_duration
from kalends.core.intervals import Moment

IN_A_ROW: Final = 8
"""The number of bids in a row that are lost before one is spared."""

FAR_S: Final = 600
"""A bid that would have ended the job so much later than the winner was hopeless."""

ONE_IN: Final = 4

TOLD_MS_MAX: Final = 600_000
"""So long a loss counts at most: then other jobs have come and gone."""

BROKERS_MAX: Final = 1_000
"""The one whose loss was noted longest ago is forgotten."""


class _Row:
    """The losses to one broker: when each is forgotten (monotonic), and the bids spared since the last."""

    __slots__ = ("spared", "until_ms")

    def __init__(self) -> None:
        self.until_ms: list[int] = []
        self.spared = 0


class LostBids:
    """The rows of lost bids, by the register of the broker. Not thread-safe; in memory only."""

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}

    def lost(self, broker: str, behind_s: int, runs_s: int, now: Moment) -> None:
        """The job would have ended `behind_s` later here than at the winner, where it runs for `runs_s`."""
        row = self._rows.pop(broker, None) or _Row()
        if behind_s < FAR_S:
            return
        row.until_ms = row.until_ms[1 - IN_A_ROW :]
        row.until_ms.append(now.monotonic_ms + min(1_000 * runs_s, TOLD_MS_MAX))
        self._rows[broker] = row
        if len(self._rows) > BROKERS_MAX:
            del self._rows[next(iter(self._rows))]

    def won(self, broker: str) -> None:
        """A bid for this broker has won."""
        self._rows.pop(broker, None)

    def why_spared(self, broker: str, now: Moment) -> str:
        """Return why the next bid for this broker is not made; "" if it is. Counts it."""
        row = self._rows.get(broker)
        if row is None:
            return ""
        lost = sum(until_ms > now.monotonic_ms for until_ms in row.until_ms)
        if lost < IN_A_ROW:
            return ""
        row.spared = (row.spared + 1) % ONE_IN
        if not row.spared:
            return ""
        far = format_duration(FAR_S)
        return f"its last {lost} bids lost by more than {far}, so it makes one of {ONE_IN}"

    def check(self) -> None:
        """Raise `AssertionError` if something is wrong with the record."""
        assert len(self._rows) <= BROKERS_MAX
        for row in self._rows.values():
            assert 0 < len(row.until_ms) <= IN_A_ROW
            assert 0 <= row.spared < ONE_IN
