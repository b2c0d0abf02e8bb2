"""Timeouts: resend, renew, and give up what took too long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kalends.broker.coordination.deadlines import Deadlines
from kalends.broker.coordination.parts import PhaseOwner
from kalends.broker.coordination.phases import Phase
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.transaction import Branch, Transaction
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.coordination.voting.prepare_phase import RENEW_EVERY_MS, PreparePhase
from kalends.core.intervals import Moment

RESEND_EVERY_MS_MAX: Final = 8_000


@dataclass(eq=False)
class Timeouts:
    """Wakes each request when its time has come; the owner of its phase knows what is to be done."""

    table: TransactionTable
    deadlines: Deadlines
    prepare: PreparePhase
    phase_owners: Mapping[Phase, PhaseOwner]

    def advance(self, now: Moment) -> None:
        while rid := self.deadlines.pop(now):
            case = self.table.cases.get(rid)
            if case is not None:
                self.table.at_work_on = rid
                self._tick(case, now)
                self.deadlines.schedule(case)

    def say_again(self, case: Transaction, site: str) -> None:
        """Renew what `site` holds, and say what it has not answered: it may have missed that."""
        part = case.parts.get(site)
        if part is not None:
            if self.phase_owners[case.phase].holds:
                self.prepare.renew(case, part)
            self.resend(case, part)

    def resend(self, case: Transaction, part: Branch) -> None:
        resend = self.phase_owners[case.phase].resend
        if resend is not None:
            resend(case, part)

    def _tick(self, case: Transaction, now: Moment) -> None:
        ms = now.monotonic_ms
        owner = self.phase_owners[case.phase]
        if owner.over is not None and case.deadline_ms <= ms:
            owner.over(case, now)
            return
        if owner.too_late is not None and _due(case.phase_deadline_ms, ms):
            owner.too_late(case, now)
            return
        if owner.woken is not None:
            owner.woken(case, now)
        if owner.holds and _due(case.renew_at_ms, ms):
            case.renew_at_ms = ms + RENEW_EVERY_MS
            for part in case.parts.values():
                self.prepare.renew(case, part)
        if _due(case.resend_at_ms, ms):
            case.resend_every_ms = min(case.resend_every_ms * 2, RESEND_EVERY_MS_MAX)
            case.resend_at_ms = self.deadlines.later(now, case.resend_every_ms)
            self.table.write(case, r.Read(case.rid))
            if owner.asked_again is not None and owner.asked_again(case, now):
                return
            for part in case.parts.values():
                self.resend(case, part)


def _due(at_ms: int, now_ms: int) -> bool:
    return bool(at_ms) and at_ms <= now_ms
