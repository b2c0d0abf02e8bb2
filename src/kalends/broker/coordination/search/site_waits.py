"""Waiting for sites that are away or silent: a request holds nothing, and tries again when they may answer.

A site that does not answer has not refused. A request with patience waits until its deadline. It tries again
at once when a site connects, and every few seconds for one that is connected and silent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kalends.broker.coordination.deadlines import Deadlines
from kalends.broker.coordination.record.refusal_errors import (
    PERMANENT,
    hold_ran_out,
    may_answer_later,
)
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.coordination.transaction_table import give_up_at_s
from kalends.broker.coordination.voting.decide_phase import DecidePhase
from kalends.broker.coordination.voting.prepare_phase import PreparePhase
from kalends.broker.planning.directory import Directory
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.identifiers import site_of
from kalends.core.intervals import Moment
from kalends.core.refusals import error_of

CLOCK_BELIEVED_MS: Final = 120_000
"""A clock that is ahead for less than this ends no wait."""


@dataclass(eq=False)
class SiteWaits:
    """Requests that wait for sites, on no waiting list; `begin_again` makes the next try."""

    directory: Directory
    deadlines: Deadlines
    decide: DecidePhase
    prepare: PreparePhase
    begin_again: Callable[[Transaction, Moment], None]

    def may_help(self, case: Transaction, refusals: tuple[Refusal, ...]) -> bool:
        """Return whether `case` may wait for sites that did not answer, which may have what is missing.

        What attributes pick may be at any site that was ever connected: what such a site has does not count
        here, because how long an answer takes must not tell of resources that the user may not see.
        """
        if case.record.spec.patience == "none":
            return False
        codes = {refusal.code for refusal in refusals}
        if case.fixed:
            return codes == {RefusalCode.SITE_DOWN}
        terms = (term for each in case.record.spec.request.alternatives for term in each.terms)
        named = {site_of(term.resource) for term in terms if term.resource}
        met = {name for name, site in self.directory.sites.items() if site.epoch}
        down = {site_of(each.where) for each in refusals if each.code == RefusalCode.SITE_DOWN}
        return not codes & PERMANENT and bool(down & (named | met))

    def wait(self, case: Transaction, refusals: tuple[Refusal, ...], now: Moment) -> None:
        """Hold nothing, and try again later, or when a site is back."""
        if not case.waits_for_sites:
            case.enter("list")
            case.parts = {}
            self.prepare.wait_for_votes(case, now)
        record = case.record
        if record.held_until_ms:
            # Its user counts on it until it runs out.
            left_ms = min(record.held_until_ms - now.wall_ms, record.spec.hold_s * 1_000)
            case.deadline_ms = max(case.deadline_ms, now.monotonic_ms + left_ms)
        case.phase_deadline_ms = case.deadline_ms
        self.deadlines.schedule(case)
        case.tries.refusals = list(refusals)
        listed = record.spec.patience == "taken" and not record.held_until_ms
        record.listed = record.listed or listed
        self.prepare.note_awaited(case, refusals, now, listed=listed)

    def asked_again(self, case: Transaction, now: Moment) -> bool:
        """Try again, unless the request stands on lists: there it says so again."""
        self._look_at_the_clock(case, now)
        if not case.waits_for_sites:
            return False
        self.begin_again(case, now)
        return True

    def over(self, case: Transaction, now: Moment) -> None:
        """The time of a request that waits, on lists or for sites, is over."""
        if case.record.held_until_ms:
            self.prepare.close(case, hold_ran_out(), "expired", now)
        elif may_answer_later(case.tries.refusals):
            self.prepare.close(case, error_of(case.tries.refusals), "failed", now)
        else:
            self.prepare.still_taken(case, now)

    def _look_at_the_clock(self, case: Transaction, now: Moment) -> None:
        """A wait that was begun while the clock was behind ends when it should, once that is sure."""
        give_up_at = give_up_at_s(case.record)
        if not give_up_at or now.wall_s < give_up_at:
            case.late_since_ms = 0
        elif not case.late_since_ms:
            case.late_since_ms = now.monotonic_ms
        elif now.monotonic_ms - case.late_since_ms >= CLOCK_BELIEVED_MS:
            case.deadline_ms = now.monotonic_ms

    def site_back(self, case: Transaction, site: str, now: Moment) -> None:
        """Try again; `site` may not have heard which attempt is over, and still keep what that asked for."""
        if site in case.tries.silent:
            self.decide.abort(case, case.record.att - 1, [site])
        self.begin_again(case, now)
