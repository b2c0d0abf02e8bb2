"""Retention of records: a site never forgets by its own clock alone.

A record goes when nothing can need it any more:

- its slots have ended a day ago, by the site's clock and by the time that has surely passed (see
  `sure_time`); so no clock that jumps, and no restart while it is wrong, makes a site forget;
- they have ended by the clock of the broker that made it, too, as it has told it in this life of the
  site; so a site whose clock is ahead for as long as you like frees nothing, and closes no time, on its own;
- a commit has been told to its end: the broker has said Forget, or that it is done when it was asked.

First the time of what is dropped is closed: a message that comes late finds no record, and must not be
taken for a new one. Only time that has surely passed is closed; should that prove wrong, because a clock
was ahead for weeks, it is opened again when the next bound shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import InitVar, dataclass, field
from typing import Final

from kalends.contract import messages as m
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.claims.claim_sets import (
    Stake,
    StakeForgotten,
    TimeClosed,
)
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.memory.sure_time import WINDOW_MS, SureTime, TimePassed
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.parts import Plug, Tier, on
from kalends.resource_servers.participation.registers import Registers
from kalends.resource_servers.participation.repeats import AT_ONCE, Repeat
from kalends.resource_servers.participation.sockets import Queues
from kalends.resource_servers.participation.this_site import ThisSite

KEEP_AFTER_END_S: Final = 86_400
"""Records outlive their slots by a day: more than any message is late."""

COLLECT_EVERY_MS: Final = 60_000

ASKED_MAX: Final = 20
"""Commits without a Forget that are asked about at each collection."""

LOOKED_AT_MAX: Final = 200
"""Records looked at in one step: a few milliseconds, also when all of them are dropped."""

COLLECT_SOME_MS: Final = 50
"""Between two such steps, as long as there is more to look at."""

CLOCKS_MAX: Final = 1_024
"""Registers whose clocks are remembered: far more than have sessions at a time."""

DECIDED_AGO_S_MAX: Final = 120
"""A decision that a register says it made longer ago would have come by now, if its brokers are heard."""

ASK_EVERY_MS_MAX: Final = 86_400_000
"""A broker that is still telling others is asked again after 2, 4, 8 minutes, and at last every day."""


@dataclass(eq=False)
class Retention:
    """Drops records that nobody needs, and asks brokers whether they still do."""

    keep_after_end_s = KEEP_AFTER_END_S
    sure_window_ms = WINDOW_MS

    here: ThisSite
    book: ClaimTable
    claims: Claims
    outbox: ParticipantOutbox
    registers: Registers
    jitter: Callable[[], float]
    queues: Queues
    forgotten: InitVar[Iterable[str]]
    horizon_s: int
    """No claim that ends by then is taken any more (UTC seconds)."""
    passed: InitVar[TimePassed]
    now: InitVar[Moment]
    _asked: dict[str, Repeat] = field(init=False, default_factory=dict)
    """The commits that may be asked about."""
    _clocks_heard: dict[str, int] = field(init=False, default_factory=dict)
    """For each register what its brokers' clocks are ahead of our monotonic one (milliseconds)."""
    _contacts: dict[str, tuple[int, int, int]] = field(init=False, default_factory=dict)
    """For each register since when it is heard, when it was heard before, and when last (seconds UTC)."""
    _lingering: dict[str, None] = field(init=False, default_factory=dict)
    """Over, and still needed when they were last looked at."""
    _unlooked: list[str] = field(init=False, default_factory=list)
    """The lingering ones that this round of collecting has still to look at."""
    _asked_now: int = field(init=False, default=0)
    sure_time: SureTime = field(init=False)
    _forgettable: set[str] = field(init=False)
    """Commits that nobody will ask about any more."""
    _collect_at_ms: int = field(init=False)
    """When the site goes on collecting, and when it next begins anew (monotonic)."""

    def __post_init__(self, forgotten: Iterable[str], passed: TimePassed, now: Moment) -> None:
        self.sure_time = SureTime(passed, now, window_ms=self.sure_window_ms)
        self._forgettable = set(forgotten)
        self._collect_at_ms = self._round_at_ms = now.monotonic_ms + COLLECT_EVERY_MS

    @property
    def plug(self) -> Plug:
        return Plug(
            Tier.RECORDS,
            handles=[on(m.Forget, lambda source, forget, now: self.forget(forget.rid))],
            timed=self,
        )

    def advance(self, now: Moment) -> None:
        if self._collect_at_ms <= now.monotonic_ms:
            self.collect(now)

    def next_deadline_ms(self) -> int:
        return self._collect_at_ms

    def heard_clock(self, source: str, wall_ms: int, now: Moment) -> None:
        """Note that the broker's clock shows `wall_ms`; it is taken to go on from there.

        0: it does not say, and is heard all the same.
        """
        register = self.registers.of(source)
        if wall_ms:
            self._clocks_heard.pop(register, None)
            self._clocks_heard[register] = wall_ms - now.monotonic_ms
        since, before, last = self._contacts.pop(register, (0, 0, 0))
        if now.wall_s - last > DECIDED_AGO_S_MAX:
            since, before = now.wall_s, last
        self._contacts[register] = since, before, now.wall_s
        if len(self._clocks_heard) > CLOCKS_MAX:
            del self._clocks_heard[next(iter(self._clocks_heard))]
        if len(self._contacts) > CLOCKS_MAX:
            del self._contacts[next(iter(self._contacts))]

    def decided_at(self, source: str, at: int, now: Moment) -> int:
        """Return when the register of `source` has decided what it says it did `at` (0: now; seconds UTC).

        Not after now; and not much before it, unless the register was not heard for a while: then what it
        decided meanwhile comes late.
        """
        since, before, _ = self._contacts.get(self.registers.of(source), (now.wall_s, 0, 0))
        back_for_long = now.wall_s - since > DECIDED_AGO_S_MAX
        earliest = (now.wall_s if back_for_long else before) - DECIDED_AGO_S_MAX
        return min(max(at, earliest), now.wall_s) if at else now.wall_s

    def over_s(self, now: Moment) -> int:
        """Return the time before which everything has long ended, whatever the clock says."""
        return min(now.wall_s, self.sure_time.sure_s) - self.keep_after_end_s

    def forget(self, rid: str) -> None:
        """Mark a commit, durably, as one that nobody will ask about."""
        stake = self.book.stakes.get(rid)
        if stake is not None and stake.decided and rid not in self._forgettable:
            self._forgettable.add(rid)
            self.outbox.store(StakeForgotten(rid))

    def collect(self, now: Moment) -> None:
        """Drop records whose slots ended long ago, after closing that time durably."""
        if self.sure_time.advance(now) and self.horizon_s > self.sure_time.sure_s:
            self._close_time(self.sure_time.sure_s)
        passed = self.sure_time.to_store()
        if passed is not None:
            self.outbox.store(passed)
        over_s = self.over_s(now)
        self._look_at_over(over_s, now)
        self.claims.payments.fold(over_s, min(over_s, self.horizon_s))

    def _look_at_over(self, limit_s: int, now: Moment) -> None:
        """Look at some records that had ended at `limit_s`; the others have their turn soon.

        A request whose later attempt has another end may be due twice, or too early.
        """
        ended, waiting = [], []
        for rid in dict.fromkeys(self._next_over(limit_s, now)):
            self._lingering.pop(rid, None)
            stake = self.book.stakes.peek(rid)
            if stake is None:
                continue
            needed_until = max(
                stake.ends_at, self.book.usage.counted_until(rid) - self.keep_after_end_s
            )
            if needed_until > limit_s:
                self.book.stakes.endings.add(rid, needed_until)
                continue
            if not self._is_needed(stake) and self.is_agreed(stake, now):
                ended.append(stake)
                continue
            self._lingering[rid] = None
            if self._is_untold(stake):
                waiting.append(stake)
        self.ask_whether_done(waiting, now)
        more = bool(self._unlooked) or self.book.stakes.endings.is_due(limit_s)
        soon_ms = now.monotonic_ms + COLLECT_SOME_MS
        self._collect_at_ms = soon_ms if more else self._round_at_ms
        if not ended:
            return
        self._close_time(max(self.horizon_s, *(stake.ends_at for stake in ended)))
        for stake in ended:
            self._drop_record(self.book.stakes[stake.rid])

    def _next_over(self, limit_s: int, now: Moment) -> list[str]:
        """Return what to look at now: in each round the records that were needed, then those due."""
        if not self._unlooked and self._round_at_ms <= now.monotonic_ms:
            self._round_at_ms = now.monotonic_ms + COLLECT_EVERY_MS
            self._unlooked = list(self._lingering)
            self._asked_now = 0
        rids, self._unlooked[-LOOKED_AT_MAX:] = self._unlooked[-LOOKED_AT_MAX:], []
        return rids + self.book.stakes.endings.take_due(limit_s, LOOKED_AT_MAX - len(rids))

    def _is_needed(self, stake: Stake) -> bool:
        if any(stake.has(state) for state in ("held", "intended", "prepared")):
            return True
        if self.book.changer_of(stake.rid) or self.queues.has_job(stake.rid):
            return True
        return self._is_untold(stake)

    def _is_untold(self, stake: Stake) -> bool:
        """Whether a commit may still be asked about."""
        return stake.decided and stake.rid not in self._forgettable and bool(stake.coords)

    def is_agreed(self, stake: Stake, now: Moment) -> bool:
        """Whether `stake` is over by its broker's clock, too."""
        clocks = self._clocks_heard
        # One without a register may be anybody's: all have to agree.
        heard = list(clocks.values()) if not stake.register else [clocks.get(stake.register)]
        over_ms = (stake.ends_at + self.keep_after_end_s) * 1000 - now.monotonic_ms
        return bool(heard) and all(each is not None and each >= over_ms for each in heard)

    def ask_whether_done(self, waiting: list[Stake], now: Moment) -> None:
        """Ask brokers about commits without a Forget: have all sites locked?"""
        due = [stake for stake in waiting if self._turn_of(stake).is_due(now)]
        due = due[: ASKED_MAX - self._asked_now]
        self._asked_now += len(due)
        for stake in due:
            turn = self._turn_of(stake)
            self._asked[stake.rid] = turn.next(
                now, self.jitter(), 2 * COLLECT_EVERY_MS, ASK_EVERY_MS_MAX
            )
            inquire = m.Inquire(
                rid=stake.rid, att=stake.att, site=self.here.name, secret=stake.secret
            )
            self.outbox.send(stake.coords[turn.times % len(stake.coords)], inquire)

    def _turn_of(self, stake: Stake) -> Repeat:
        return self._asked.get(stake.rid, AT_ONCE)

    def _close_time(self, horizon_s: int) -> None:
        if horizon_s != self.horizon_s:
            self.horizon_s = horizon_s
            self.outbox.store(TimeClosed(horizon_s))

    def _drop_record(self, stake: Stake) -> None:
        self.claims.drop(stake)
        self._forgettable.discard(stake.rid)
        self._asked.pop(stake.rid, None)
