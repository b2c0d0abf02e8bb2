"""Watch over a server's wall clock: jumps, and differences from the clocks of other servers.

No server knows the true time, but two signs betray a wrong clock. A clock that jumps moves against the
monotonic clock, which cannot jump; a clock that was wrong from the start disagrees with other clocks. Both
raise an alarm. The old time continues after a jump until the clock of another server agrees with the new
time. So a clock that is wrong for an hour and then right again is never followed, and a clock that an
operator corrects is followed at once. The store of a server also confirms that a clock was behind: it
knows a time that has already come. No promise depends on the wall clock; see `docs/protocol.md`.

The majority shows which clock is wrong: if more than half of all clocks agree, the others are wrong,
and this server's own clock may be one of them. With two clocks, or no majority, any may be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kalends.core.durations import format_duration
from kalends.core.intervals import Moment
from kalends.serving.metrics import Metrics

JUMP_MS: Final = 10_000
"""A clock that is set by less is followed: NTP does that."""

APART_MS: Final = 60_000
"""Clocks that differ by less agree. NTP keeps hosts much closer."""

HEARD_MAX: Final = 1_024

NAMED_MAX: Final = 4
"""Clocks that are named in one alarm."""


class _Found(NamedTuple):
    """Faults of clocks: a jump of the own clock (0: none), and clocks that disagree with it."""

    jump_ms: int
    apart_ms: dict[str, int]
    """How far the own clock is ahead of each of these others."""
    agreeing: tuple[str, ...]
    """The majority, if there is one; "" is the own clock."""

    def is_like(self, other: _Found) -> bool:
        """Return whether both give the same alarm, except for some seconds."""
        return (
            self.apart_ms.keys() == other.apart_ms.keys()
            and set(self.agreeing) == set(other.agreeing)
            and bool(self.jump_ms) == bool(other.jump_ms)
            and abs(self.jump_ms - other.jump_ms) <= JUMP_MS
            and all(abs(ms - other.apart_ms[who]) <= JUMP_MS for who, ms in self.apart_ms.items())
        )


_NOTHING: Final = _Found(0, {}, ())


class ClockWatch:
    """Watch over the clocks that `read` reads; `tell` gets each new fault, and "" when it has ended."""

    def __init__(self, read: Callable[[], Moment], tell: Callable[[str], None]) -> None:
        self.doubt = ""
        """Why the wall clock of this host may be wrong, for an operator; "" if nothing suggests it."""
        self._found = _NOTHING
        self._read = read
        self._tell = tell
        self._ahead_ms = _ahead(read())
        self._heard_ms: dict[str, int] = {}
        self._passed_ms = 0

    def passed(self, wall_s: int) -> None:
        """Take note of a time that has already come, by the store.

        A clock that is set from before this time to after it was behind, and is followed.
        """
        self._passed_ms = wall_s * 1_000

    def now(self) -> Moment:
        """Return the time to use: its wall clock follows only jumps that another clock confirms."""
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
        apart_ms = {
            who: ahead_ms - heard_ms
            for who, heard_ms in self._heard_ms.items()
            if abs(heard_ms - ahead_ms) > APART_MS
        }
        jump_ms = ahead_ms - self._ahead_ms
        if not jump_ms and not apart_ms and self._found == _NOTHING:
            return  # As at nearly every reading, of which each message makes two.
        agreeing = _majority({"": ahead_ms, **self._heard_ms}) if apart_ms else ()
        found = _Found(jump_ms, apart_ms, agreeing)
        if found.is_like(self._found):
            return
        self._found = found
        self.doubt = _of_own(found)
        self._tell(_told(found))


def watch_clock(metrics: Metrics, in_doubt: Callable[[], bool]) -> None:
    """Register the gauge of clock faults."""
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


def _majority(ahead_ms: dict[str, int]) -> tuple[str, ...]:
    """Return the clocks that agree with each other, if they are more than half of all; else none."""
    ordered = sorted(ahead_ms, key=lambda who: ahead_ms[who])
    first, most = 0, range(0)
    for last, who in enumerate(ordered):
        while ahead_ms[who] - ahead_ms[ordered[first]] > APART_MS:
            first += 1
        most = max(most, range(first, last + 1), key=len)
    return tuple(sorted(ordered[most.start : most.stop])) if len(most) * 2 > len(ordered) else ()


def _of_own(found: _Found) -> str:
    """Return why the own clock may be wrong; "" if it has not jumped, and the majority agrees with it."""
    reasons = []
    if found.jump_ms:
        reasons.append(
            f"the clock of this host was set {_apart(found.jump_ms)}, and no other server"
            " confirms it: the old time continues. If the clock is right now, restart this server"
        )
    if found.agreeing and "" not in found.agreeing:
        ahead_ms = max((found.apart_ms.get(who, 0) for who in found.agreeing), key=abs)
        reasons.append(
            f"the clock of this host is {_apart(ahead_ms)} compared with those of"
            f" {_named(found.agreeing)}, which agree with each other"
        )
    elif found.apart_ms and not found.agreeing:
        listed = [f"{_apart(ms)} compared with that of {who}" for who, ms in found.apart_ms.items()]
        reasons.append(f"the clock of this host is {', '.join(listed[:NAMED_MAX])}")
    return f"{'; '.join(reasons)}. Set the clocks of all hosts (NTP)" if reasons else ""


def _told(found: _Found) -> str:
    """Return the alarm for an operator: doubts about the own clock, and the other clocks that are wrong."""
    own = _of_own(found)
    if not found.apart_ms or "" not in found.agreeing:
        return own
    odd = ", ".join(
        [f"that of {who} is {_apart(-ms)}" for who, ms in found.apart_ms.items()][:NAMED_MAX]
    )
    others = _named([who for who in found.agreeing if who])
    told = (
        f"the clock of this host is confirmed by {others}, but {odd}. Its owner has to set it (NTP)"
    )
    return f"{own}. {told}" if own else told


def _named(who: Sequence[str]) -> str:
    more = f" and {len(who) - NAMED_MAX} others" if len(who) > NAMED_MAX else ""
    return ", ".join(who[:NAMED_MAX]) + more
