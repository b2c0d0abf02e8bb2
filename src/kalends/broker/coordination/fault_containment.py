"""Containment of faults: a request that breaks a step is set aside, and all others continue.

A step of the coordinator that breaks off half way leaves a request of which nobody knows what is true.
What it had begun to do for that request is not done, its case is forgotten, and who waits is told that
the outcome is unknown. The register knows the truth: the request is read from there, and gone on with,
as after a restart. One that breaks again and again is left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

from kalends.broker.coordination.effects import EffectCounts
from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.core.errors import IllegalEvent, KalendsError

T = TypeVar("T")

STEPS_MAX: Final = 1_000
"""Requests that one step may lose before it is taken for a fault of the whole."""

ASIDE_MAX: Final = 3
"""Steps that may break at a request before it is left alone: it would break at the same again."""


class FaultContainment:
    """Runs the steps of the coordinator; `broke` is told of each request that one breaks at."""

    def __init__(
        self, table: TransactionTable, outbox: CoordinatorOutbox, *, broke: Callable[[str], None]
    ) -> None:
        self._table = table
        self._outbox = outbox
        self._broke = broke
        self._aside: Counter[str] = Counter()
        """Requests that steps have broken at, and how often."""

    def asked(self, step: Callable[[], T]) -> T:
        """Return the answer of `step` to a caller; raises what it raises.

        A refusal is no fault: then nothing has happened. After anything else the request is set aside.
        """
        since = self._begin()
        try:
            return step()
        except Exception as error:
            # The boundary of one request, as below.
            refused = isinstance(error, KalendsError) and not isinstance(error, IllegalEvent)
            if self._table.at_work_on and not refused:
                self._set_aside(self._table.at_work_on, error, since)
            raise

    def contained(self, step: Callable[[], object], *, goes_on: bool = False) -> None:
        """Carry out `step`, and set aside the request that it breaks at.

        `goes_on`: it is about many requests, and is carried out again for the rest of them. Raises what
        the step raises when that is no request's fault: then nothing that the coordinator knows can be
        believed any more.
        """
        for _ in range(STEPS_MAX):
            since = self._begin()
            try:
                step()
            except Exception as error:
                # The boundary of one request: whatever it was, the others are not to suffer for it.
                if not self._table.at_work_on:
                    raise
                self._set_aside(self._table.at_work_on, error, since)
                if not goes_on:
                    return
            else:
                return
        raise RuntimeError(f"{STEPS_MAX} requests broke in one step")

    def left_alone(self, rid: str) -> bool:
        """Whether `rid` has broken so often that it is not tried again before the next start."""
        return self._aside[rid] >= ASIDE_MAX

    def attended(self) -> set[str]:
        """Requests that are worked on, or left alone on purpose."""
        return {*self._table.cases, *(rid for rid in self._aside if self.left_alone(rid))}

    def _begin(self) -> EffectCounts:
        self._table.at_work_on = ""
        return self._outbox.effects.mark()

    def _set_aside(self, rid: str, error: Exception, since: EffectCounts) -> None:
        """Forget the case of `rid`, and what was to be done for it `since`; others are as they were."""
        self._broke(rid)
        self._aside[rid] += 1
        left = "" if self._aside[rid] < ASIDE_MAX else ", and left alone until the next start"
        self._outbox.alarm(f"request {rid} is set aside{left}: {error!r}")
        case = self._table.cases.get(rid)
        if case is None:
            self._outbox.effects.withdraw(rid, rid, (), since)
            return
        self._outbox.effects.withdraw(rid, case.record.reservation, case.tickets, since)
        self._outbox.leave_unknown(case.tickets)
        case.tickets.clear()
        self._table.forget(case)
