"""A server's wall clock, watched: does it jump, and is it that of the servers it talks to?

No server knows the true time, but two things betray a wrong clock. One that jumps has moved against the
monotonic clock, which cannot; one that was wrong from the start disagrees with the others'. Both are
told, and a jump is waited out: time goes on as before it until somebody else's clock agrees with the new
time. So a clock that is wrong for an hour and then right again was never followed, and one that an
operator sets right is followed at once. The store of a server confirms, too, that a clock was behind: it
knows a time that has come already. Nothing that is promised hangs on it; see `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kalends.core.durations import format_duration
from kalends.core.intervals import Moment
from kalends.serving.metrics import Metrics

JUMP_MS: Final = 10_000
"""A clock that is set by less is followed: NTP does that."""

APART_MS: Final = 60_000
"""Clocks that differ by less agree: far more than those of hosts that are kept by NTP."""

HEARD_MAX: Final = 1_024


class ClockWatch:
    """Watches the clocks that `read` reads; `tell` hears of every doubt that begins, and "" when it ends."""

    def __init__(self, read: Callable[[], Moment], tell: Callable[[str], None]) -> None:
        self.doubt = ""
        """Why the wall clock may be wrong, for an operator; "" if nothing suggests it."""
        self._read = read
        self._tell = tell
        self._ahead_ms = _ahead(read())
        self._heard_ms: dict[str, int] = {}
        self._passed_ms = 0

    def passed(self, wall_s: int) -> None:
        """This time has come already, as the store says: a clock that is set from before it to after it
        was behind, and is followed."""
        self._passed_ms = wall_s * 1_000

    def now(self) -> Moment:
        """Return the time to believe: its wall clock follows no jump that nobody confirms."""
        now = self._read()
        ahead_ms = _ahead(now)
        if abs(ahead_ms - self._ahead_ms) <= JUMP_MS or self._is_confirmed(now):
            self._ahead_ms = ahead_ms
        self._judge(ahead_ms)
        return Moment(now.monotonic_ms, now.monotonic_ms + self._ahead_ms)

    def wall_ms(self) -> int:
        """Return the wall clock's time, right or wrong, as reported to others."""
        return self._read().wall_ms

    def heard(self, who: str, wall_ms: int) -> None:
        """Record the wall clock that `who` has reported; it is assumed to run on."""
        self._heard_ms.pop(who, None)
        self._heard_ms[who] = wall_ms - self._read().monotonic_ms
        if len(self._heard_ms) > HEARD_MAX:
            del self._heard_ms[next(iter(self._heard_ms))]
        self.now()

    def lost(self, who: str) -> None:
        """Forget the clock of `who`, which is disconnected."""
        self._heard_ms.pop(who, None)

    def _is_confirmed(self, now: Moment) -> bool:
        ahead_ms = _ahead(now)
        if now.monotonic_ms + self._ahead_ms + APART_MS < self._passed_ms <= now.wall_ms + APART_MS:
            return True
        return any(abs(each - ahead_ms) <= APART_MS for each in self._heard_ms.values())

    def _judge(self, ahead_ms: int) -> None:
        reasons = []
        if self._ahead_ms != ahead_ms:
            reasons.append(
                f"the clock of this host was set {_apart(ahead_ms - self._ahead_ms)} and nobody"
                " confirms it: time goes on as before. If it is right now, restart this server"
            )
        apart = [
            f"{_apart(ahead_ms - heard_ms)} against that of {who}"
            for who, heard_ms in self._heard_ms.items()
            if abs(heard_ms - ahead_ms) > APART_MS
        ]
        if apart:
            reasons.append(f"the clock of this host is {', '.join(apart[:4])}")
        doubt = "; ".join(reasons)
        doubt = f"{doubt}. Set the clocks of all hosts (NTP)" if doubt else ""
        told, self.doubt = self.doubt, doubt
        if bool(doubt) != bool(told):
            self._tell(doubt)


def watch_clock(metrics: Metrics, in_doubt: Callable[[], bool]) -> None:
    """Register a gauge by which an operator's monitoring learns of clock faults."""
    metrics.gauge(
        "kalends_clock_in_doubt",
        "1: the wall clock has jumped, or disagrees with others.",
        value=in_doubt,
    )


def _ahead(now: Moment) -> int:
    return now.wall_ms - now.monotonic_ms


def _apart(ahead_ms: int) -> str:
    """Format as ``2h ahead`` or ``1m1s behind``, to the second."""
    way = "ahead" if ahead_ms > 0 else "behind"
    return f"{format_duration(round(abs(ahead_ms) / 1000))} {way}"
