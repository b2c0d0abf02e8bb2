"""The decaying use of accounts, in whole numbers only, equal on every machine.

Use is worth half as much after each half-life. All of it fades alike, so later use is counted as larger
instead of making earlier use smaller: the order of two accounts changes only when one of them uses nodes.
"""

from __future__ import annotations

from math import isqrt
from typing import Final

from kalends.scheduling.job import Job

STEPS: Final = 64
"""Steps in which the worth of use doubles during one half-life: each is about a hundredth."""

_BITS: Final = 128
_WORTH_BITS: Final = 32
_DOUBLINGS_MAX: Final = 64
"""Number of half-lives after which use no longer counts."""


def _growth() -> tuple[int, ...]:
    """Return 2 ** (step / STEPS) for each step, times 2 ** _WORTH_BITS, rounded down."""
    step = 2 << _BITS
    for _ in range(STEPS.bit_length() - 1):
        step = isqrt(step << _BITS)
    worths = [1 << _BITS]
    for _ in range(STEPS - 1):
        worths.append(worths[-1] * step >> _BITS)
    return tuple(worth >> (_BITS - _WORTH_BITS) for worth in worths)


_GROWTH: Final = _growth()


class DecayedUse:
    """The use of accounts in node-seconds, weighted; `half_life_s` 0: nothing is forgotten.

    A running job counts with all of its requested time, and with its real time once it has ended.
    """

    def __init__(self, half_life_s: int) -> None:
        self.half_life_s = half_life_s
        self._uses: dict[int, int] = {}
        self._running: dict[int, int] = {}
        """The counted use of each running job, by its order of submission."""
        self._base = 0
        """Half-lives since 1970 at which use has the worth 1."""

    def rank(self, account: int, share: int) -> int:
        """Return the use of an account for each of its shares: the account with less goes first."""
        return self._uses.get(account, 0) // share

    def begin(self, job: Job) -> None:
        """Count a job that has just been started."""
        counted = job.nodes * job.requested_s * self._worth(job.start_s)
        self._running[job.order] = counted
        self._add(job, counted)

    def end(self, job: Job, now: int) -> None:
        """Count the time that a job really had."""
        used = job.nodes * (now - job.start_s) * self._worth(now)
        self._add(job, used - self._running.pop(job.order, 0))

    def _add(self, job: Job, counted: int) -> None:
        account = account_of(job)
        # Below 0 only for what was forgotten since.
        self._uses[account] = max(self._uses.get(account, 0) + counted, 0)

    def _worth(self, now: int) -> int:
        """Return the weight of a node-second that is used now."""
        if not self.half_life_s:
            return 1
        doublings, step = divmod(now * STEPS // self.half_life_s, STEPS)
        if doublings - self._base > _DOUBLINGS_MAX:
            self._forget(doublings)
        return _GROWTH[step] << max(doublings - self._base, 0)

    def _forget(self, base: int) -> None:
        faded, self._base = base - self._base, base
        uses = {account: use >> faded for account, use in self._uses.items()}
        self._uses = {account: use for account, use in uses.items() if use}
        self._running = {order: use >> faded for order, use in self._running.items()}


def account_of(job: Job) -> int:
    """Return the account to which the job's use counts."""
    return job.account if job.account >= 0 else job.user
