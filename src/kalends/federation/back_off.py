"""Rest of a site that is silent, or takes no jobs.

One that says that it takes nothing: half a minute. One that is silent: half a minute at first, twice as long
after each further failure, up to an hour. Then one question goes out as a probe; while it is under way the
site rests for all others, and when it is answered by a bid the rest is over. So a site that is dead for long
costs a message an hour, and one that is back is found again: no rest is longer than an hour, whatever
failed and however often.
"""

from __future__ import annotations

from typing import Final, NamedTuple

REST_MS_MIN: Final = 30_000
REST_MS_MAX: Final = 3_600_000

SHORTENED: Final = 0.5
"""A rest is shortened by chance by up to this part of it: whoever failed together does not ask together."""

FAILURES_COUNTED: Final = 8
"""After so many the rest is the longest already; no more are counted."""

PROBE_MS: Final = 5_000
"""So long a probe keeps others away at most: its answer, or its deadline, is known before."""


class BackOff(NamedTuple):
    """The site rests until `until_ms` (monotonic), after so many failures in a row.

    `probing`: it rests no more but for a probe that is under way.
    """

    until_ms: int = 0
    failures: int = 0
    probing: bool = False

    def rests(self, now_ms: int) -> bool:
        """Return whether the site is to be left alone now."""
        return now_ms < self.until_ms

    def failed(self, now_ms: int, jitter: float) -> BackOff:
        """Return the rest after another failure; `jitter` is drawn in [0, 1).

        In a rest, only a probe can fail: whatever else does was asked before the rest began, and a burst of
        questions that fail together is one failure.
        """
        if self.rests(now_ms) and not self.probing:
            return self
        failures = min(self.failures + 1, FAILURES_COUNTED)
        whole_ms = min(REST_MS_MIN << (failures - 1), REST_MS_MAX)
        return BackOff(now_ms + int(whole_ms * (1 - SHORTENED * jitter)), failures)

    def probed(self, now_ms: int) -> BackOff:
        """Return what others see once the site was asked: after failures they wait for the answer."""
        if not self.failures or self.rests(now_ms):
            return self
        return self._replace(until_ms=now_ms + PROBE_MS, probing=True)

    def check(self) -> None:
        """Raise `AssertionError` if something is wrong with the record."""
        assert 0 <= self.failures <= FAILURES_COUNTED
        assert self.failures or not self.probing


ACTIVE: Final = BackOff()
"""It has not failed, or has bid since."""


def after_refusal(now_ms: int, closed_s: int = 0) -> BackOff:
    """Return the rest of a site that answers, and takes nothing now: for the `closed_s` that it has said.

    That is no failure: nobody hears of it when the site takes jobs again, so what follows is not made longer.
    Its owner may open it before the time that it has said: so a rest has its bounds here, too.
    """
    return BackOff(now_ms + min(max(closed_s * 1_000, REST_MS_MIN), REST_MS_MAX))
