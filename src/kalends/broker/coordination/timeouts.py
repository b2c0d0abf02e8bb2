"""Timeouts: resend, renew, and give up what took too long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kalends.broker.coordination import decision_record as r
from kalends.broker.coordination.agent_dispatch import AgentDispatch
from kalends.broker.coordination.deadlines import Deadlines
from kalends.broker.coordination.decide_phase import DecidePhase
from kalends.broker.coordination.negotiation import Negotiation
from kalends.broker.coordination.owner_approvals import OwnerApprovals
from kalends.broker.coordination.phases import Phase
from kalends.broker.coordination.prepare_phase import RENEW_EVERY_MS, PreparePhase
from kalends.broker.coordination.refusal_errors import (
    hold_ran_out,
    may_answer_later,
    site_down,
)
from kalends.broker.coordination.slot_search import SlotSearch
from kalends.broker.coordination.solicitation import Solicitation
from kalends.broker.coordination.transaction import Branch, Transaction
from kalends.broker.coordination.transaction_table import TransactionTable, give_up_at_s
from kalends.broker.coordination.waiting_lists import ListPlaces
from kalends.core.errors import Expired, NoCommonTime, Refusal
from kalends.core.intervals import Moment
from kalends.core.refusals import error_of

RESEND_EVERY_MS_MAX: Final = 8_000

WORKING_PHASES: Final = (
    "looking", "touring", "bidding", "voting", "holding", "waiting", "preparing",
)  # fmt: skip
"""Something is on its way, or waited for, whose time may run out."""

CLOCK_BELIEVED_MS: Final = 120_000
"""A clock that is ahead for less than this ends nobody's wait."""


@dataclass(eq=False)
class Timeouts:
    """Looks at each request when its time has come; what was not answered is said again."""

    table: TransactionTable
    deadlines: Deadlines
    decide: DecidePhase
    prepare: PreparePhase
    lists: ListPlaces
    search: SlotSearch
    negotiation: Negotiation
    approvals: OwnerApprovals
    agents: AgentDispatch
    bids: Solicitation

    def __post_init__(self) -> None:
        self._resend_in: Mapping[Phase, Callable[[Transaction, Branch], None]] = {
            "touring": self.agents.resend,
            "bidding": self.bids.resend,
            "voting": self.prepare.resend,
            "holding": self.prepare.resend,
            "asking": self.prepare.ask_owner,
            "preparing": self.prepare.resend,
            "waiting": self.lists.resend,
            "telling": self.decide.resend,
            "cancelling": self.decide.resend,
        }
        """The part that knows what sites have not answered in each phase."""

    def advance(self, now: Moment) -> None:
        while rid := self.deadlines.pop(now):
            case = self.table.cases.get(rid)
            if case is not None:
                self.table.at_work_on = rid
                self._tick(case, now)
                self.deadlines.schedule(case)

    def resend(self, case: Transaction, part: Branch) -> None:
        """Say again what a site has not answered; always the message, never an assumption."""
        if case.phase in self._resend_in:
            self._resend_in[case.phase](case, part)

    def renew(self, case: Transaction, part: Branch) -> None:
        """Keep a hold, if there is one."""
        if part.hold_ids:
            self.agents.renew(case, part)

    def _tick(self, case: Transaction, now: Moment) -> None:
        ms = now.monotonic_ms
        working = case.phase in WORKING_PHASES
        if working and (_due(case.phase_deadline_ms, ms) or case.deadline_ms <= ms):
            self._too_late(case, now)
            return
        if case.phase == "waiting":
            self.lists.look_if_stirred(case, now)
        if case.phase == "held" and _due(case.phase_deadline_ms, ms):
            self.prepare.close(case, hold_ran_out(), "expired", now)
            return
        if case.phase == "asking" and _due(case.phase_deadline_ms, ms):
            self.approvals.time_is_up(case, now)
            return
        if _due(case.renew_at_ms, ms) and case.phase in ("holding", "held", "asking", "preparing"):
            case.renew_at_ms = ms + RENEW_EVERY_MS
            for part in case.parts.values():
                self.renew(case, part)
        if _due(case.resend_at_ms, ms):
            case.resend_every_ms = min(case.resend_every_ms * 2, RESEND_EVERY_MS_MAX)
            case.resend_at_ms = self.deadlines.later(now, case.resend_every_ms)
            if working or case.phase in ("asking", "telling", "cancelling"):
                self.table.write(case, r.Read(case.rid))
            if case.phase == "waiting":
                self._look_at_the_clock(case, now)
            if case.waits_for_sites:
                self.search.waits.begin_again(case, now)
                return
            for part in case.parts.values():
                self.resend(case, part)

    def _look_at_the_clock(self, case: Transaction, now: Moment) -> None:
        """A wait that was begun while the clock was behind ends when it should, once that is sure."""
        give_up_at = give_up_at_s(case.record)
        if not give_up_at or now.wall_s < give_up_at:
            case.late_since_ms = 0
        elif not case.late_since_ms:
            case.late_since_ms = now.monotonic_ms
        elif now.monotonic_ms - case.late_since_ms >= CLOCK_BELIEVED_MS:
            case.deadline_ms = now.monotonic_ms

    def _too_late(self, case: Transaction, now: Moment) -> None:
        """Sites were silent: go on without them, or give up; either way this attempt is over."""
        over = case.deadline_ms <= now.monotonic_ms
        if not over and case.phase == "looking":
            self.search.look_on(case, now, given_up=True)
        elif not over and case.phase == "touring":
            self.agents.toured(case, now)
        elif not over and case.phase == "bidding":
            self.bids.time_is_up(case, now)
        elif not over and case.phase == "holding" and case.record.asks_owner:
            # A site that is down for a while ends nothing that owners think about.
            case.phase_deadline_ms = now.monotonic_ms + self.prepare.vote_ms_max(case)
        elif not over and case.phase == "preparing" and case.record.held_until_ms:
            # Nor what its user has held, and locks: another attempt could lose it to others.
            case.phase_deadline_ms = now.monotonic_ms + self.prepare.vote_ms_max(case)
        elif over or not self.negotiation.still_in_line(case, now):
            self._give_up(case, now, over=over)

    def _give_up(self, case: Transaction, now: Moment, *, over: bool) -> None:
        """The attempt is over, and if the time of the request is `over`, so is the request."""
        silent = _silent(case)
        if case.phase == "preparing":
            case.tries.unkept |= {each.where for each in silent}
        if not over:
            self.negotiation.refused(case, silent, now)
        elif case.phase == "waiting" and case.record.held_until_ms:
            self.prepare.close(case, hold_ran_out(), "expired", now)
        elif case.phase == "waiting" and may_answer_later(case.tries.refusals):
            self.prepare.close(case, error_of(case.tries.refusals), "failed", now)
        elif case.phase == "waiting" or (case.phase == "holding" and not silent):
            error = NoCommonTime(
                "still taken at the deadline",
                remedy="wait longer, give a wider window, or see `kalends find`",
                refusals=case.awaited or tuple(case.tries.refusals),
            )
            self.prepare.close(case, error, "failed", now)
        else:
            no_answer = error_of(silent) if silent else Expired("the request ran out of time")
            self.prepare.close(case, no_answer, "failed", now)


def _silent(case: Transaction) -> tuple[Refusal, ...]:
    """A refusal for each site that has not answered."""
    if case.phase == "looking":
        asked = sorted({each.site for each in case.look.queries.values()})
        return tuple(site_down(site, "the site did not answer in time") for site in asked)
    return tuple(
        site_down(part.site, "the site did not answer in time")
        for part in case.parts.values()
        if not (part.voted or (case.phase == "holding" and (part.hold_ids or part.ahead >= 0)))
        and not (case.agent.tour is not None and part.site in case.agent.tour.reports)
        and not (case.phase == "bidding" and part.site in case.bidding.bids)
    )


def _due(at_ms: int, now_ms: int) -> bool:
    return bool(at_ms) and at_ms <= now_ms
