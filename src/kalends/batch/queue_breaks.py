"""Queues that have broken, and those that do so too often to be tried again and again.

A queue that breaks ends the life of its site, which begins anew from its store: within a second, and for the
calendar, too. What breaks again and again is disabled instead, until the next start of the server or until
it has been left alone for a while: the calendar and the other machines go on without it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Final

from kalends.core.errors import Unavailable

BREAKS_MAX: Final = 3
WITHIN_MS: Final = 3_600_000


class QueueBreaks:
    """The last breaks of each machine's queue, by monotonic time."""

    def __init__(self) -> None:
        self._last: defaultdict[str, deque[tuple[int, str]]] = defaultdict(
            lambda: deque(maxlen=BREAKS_MAX)
        )

    def add(self, machine: str, why: str, monotonic_ms: int) -> None:
        self._last[machine].append((monotonic_ms, why))

    def too_many(self, monotonic_ms: int) -> dict[str, str]:
        """Return the machines that are to be disabled now, with what broke them last."""
        return {
            machine: last[-1][1]
            for machine, last in self._last.items()
            if len(last) == BREAKS_MAX and monotonic_ms - last[0][0] <= WITHIN_MS
        }


def disabled_words(machine: str, why: str) -> str:
    """Return the alarm for a disabled machine; "" for any other."""
    if not why:
        return ""
    return (
        f"{machine} is disabled: {why}. Its running jobs continue, no job starts, and no user can book "
        "it; the rest of the site works. Remove the cause, then restart the site"
    )


def out_of_work(machine: str) -> Unavailable:
    """Return the error for users of a disabled machine."""
    return Unavailable(
        f"the queue of {machine} does not work at present; its running jobs continue",
        where="machine",
        remedy="ask the operator of the site, who sees the cause in the log",
        retry_after_s=60.0,
    )
