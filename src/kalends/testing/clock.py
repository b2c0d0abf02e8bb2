"""A clock that tests move forward."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from kalends.core.errors import InvalidInput
from kalends.core.intervals import Moment


class MovableClock:
    """A clock that begins at `begin_s` (UTC) and runs at the pace of this machine.

    `settle` waits until the servers have exchanged their messages, so that none is in flight during a leap.
    """

    def __init__(self, begin_s: float, settle: Callable[[], object]) -> None:
        self._ahead_s = 0.0
        self._behind_wall_s = begin_s - time.monotonic()
        self._settle = settle

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Advance the time at once, for all servers and for the clients' reading of ``now``.

        Wall clocks, monotonic clocks and the servers' timers leap together, as on a machine that was
        suspended: nothing happens in between, and deadlines of that time are due now. When this returns,
        the servers have handled every such deadline, the broker has stored the results for its requests,
        and it is in contact with its sites again. Effects on other requests may take another moment: wait
        for them by a call, such as `wait`.

        Timeouts of the network and of the protocol also pass. A connection may be lost, and is reopened. An
        open request, such as a waiting one, may find its sites silent and fail: while
        there is one, advance in steps of a few seconds.

        Raises `InvalidInput` for a time that is not after the present.
        """
        ahead_s = timedelta(days, seconds, minutes=minutes, hours=hours).total_seconds()
        if ahead_s <= 0:
            raise InvalidInput(
                "time can only go forward", where="clock", remedy="advance by more than 0"
            )
        self._settle()
        self._ahead_s += ahead_s
        self._settle()

    def monotonic_s(self) -> float:
        return time.monotonic() + self._ahead_s

    def wall_s(self) -> float:
        """Return the time in seconds UTC."""
        return self.monotonic_s() + self._behind_wall_s

    def now(self) -> datetime:
        """Return the time as a `datetime` in UTC."""
        return datetime.fromtimestamp(self.wall_s(), UTC)

    def moment(self) -> Moment:
        """Return the reading of both clocks at once, for servers."""
        monotonic_s = self.monotonic_s()
        return Moment(int(monotonic_s * 1000), int((monotonic_s + self._behind_wall_s) * 1000))
