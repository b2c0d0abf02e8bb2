"""Whether a machine bids: after jobs that its site could not start, it has to show first that it can.

A place in such a queue would be a black hole: free at once, because nothing runs there, and so the best bid
for every job. Faults of a job itself, such as a command that does not exist, say nothing about the next one.

While the jobs of one user could not be started, nothing is bid for that user; with those of two users in a
row, nothing at all. After a pause one bid is made as a trial. The next program that runs, by whatever way its
job came, ends all of it for its user. Pure: `now_ms` is a monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

PAUSE_MS: Final = 60_000
PAUSE_MS_MAX: Final = 3_600_000
"""The pause doubles with each failure in a row, up to an hour: each costs a user's job a second placing."""

TRIAL_MS: Final = 60_000
"""A trial whose job was not placed here, or waits, is given up after this: another one may be made."""

USERS_OF_A_HOLE: Final = 2
"""Users whose jobs fail to start one after another, until the fault is the machine's and not an account's."""

REMEMBERED_MAX: Final = 10_000
NO_REASON: Final = "no reason is known"


@dataclass
class BidPause:
    """No bids until `until_ms`; then one, and the next `TRIAL_MS` later. `why` is sent to brokers."""

    until_ms: int
    for_ms: int
    why: str


@dataclass
class StartTrust:
    """One machine's, for one life of its site: the next life has one trial more."""

    _pauses: dict[str, BidPause] = field(default_factory=dict)
    """By user; "" is for all. The oldest first."""
    _failed: set[str] = field(default_factory=set)
    """Users whose jobs could not be started since the last one that could."""

    def could_not_start(self, user: str, why: str, now_ms: int) -> None:
        """Note a job that the site could not start, for a reason of its own."""
        self._failed.add(user)
        self._pause(user, why, now_ms)
        if len(self._failed) >= USERS_OF_A_HOLE:
            self._pause("", why, now_ms)

    @property
    def doubted(self) -> bool:
        """Whether there is any user for whom nothing, or only a trial, is bid."""
        return bool(self._pauses)

    def began(self, user: str) -> None:
        """Note a job whose program has run."""
        self._failed.clear()
        self._pauses.pop("", None)
        self._pauses.pop(user, None)

    def why_not(self, user: str, now_ms: int) -> str:
        """Return why no place is offered for a job of `user`; "" if one is, which may be a trial."""
        known = [each for name in ("", user) if (each := self._pauses.get(name)) is not None]
        for each in known:
            if now_ms < each.until_ms:
                return each.why or NO_REASON
        for each in known:
            each.until_ms = now_ms + TRIAL_MS
        return ""

    def _pause(self, name: str, why: str, now_ms: int) -> None:
        before = self._pauses.pop(name, None)
        for_ms = PAUSE_MS if before is None else min(2 * before.for_ms, PAUSE_MS_MAX)
        self._pauses[name] = BidPause(now_ms + for_ms, for_ms, why)
        if len(self._pauses) > REMEMBERED_MAX:
            del self._pauses[next(iter(self._pauses))]
