"""Requests of brokers without an agent: holds and promises, their renewal and release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.identifiers import machine_of
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.admission import Admission
from kalends.resource_servers.participation.attempts import LiveAttempts
from kalends.resource_servers.participation.claims.claim_sets import Stake
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.claims.claims_at_rest import Stakes
from kalends.resource_servers.participation.claims.occupancy import are_alternatives
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.contention.wait_queue import Holder
from kalends.resource_servers.participation.contention.waiting_list_offers import WaitingLists
from kalends.resource_servers.participation.contention.wound_wait import WoundWait
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.parts import Plug, Tier, on
from kalends.resource_servers.participation.sockets import Guard, Visitors
from kalends.resource_servers.participation.this_site import ThisSite


@dataclass(eq=False)
class ClaimHandler:
    """Answers Visit, Prepare, Renew and Release."""

    here: ThisSite
    stakes: Stakes
    claims: Claims
    consequences: Consequences
    attempts: LiveAttempts
    admission: Admission
    visitors: Visitors
    wound_wait: WoundWait
    lists: WaitingLists
    guard: Guard
    outbox: ParticipantOutbox

    @property
    def plug(self) -> Plug:
        return Plug(
            Tier.WAITS,
            handles=[
                on(m.Visit, self.visit, refuse=self._turn_down),
                on(m.Prepare, self.prepare),
                on(m.Renew, self.renew),
                on(m.Release, lambda source, each, now: self.release(each, now)),
            ],
        )

    # Visit: hold, or promise at once

    def visit(self, source: str, visit: m.Visit, now: Moment, *, may_recall: bool = True) -> None:
        if self.attempts.is_stale(source, visit.rid, visit.att):
            return
        stake = self.stakes.get(visit.rid)
        fresh = stake is None or stake.att < visit.att or not stake.claims
        if fresh and self.admission.rulings.decides:
            resume = partial(self.visit, source, visit, may_recall=may_recall)
            wants = [(want, 0) for want in visit.wants]
            if self.admission.rulings.awaits(visit, wants, now, resume):
                return
        visit = self.admission.consent.only_held(visit)
        if stake is not None and stake.att == visit.att and stake.claims:
            self._repeat_visit(source, stake, visit, now)
            return
        if self.visitors.is_asking(visit.rid, visit.att):
            return
        place = self.wound_wait.line.get(visit.rid)
        if place is not None and place.visit.att == visit.att:
            self.wound_wait.repeat(source, place, now)
            return
        if self._is_answered_later(stake):
            return
        self.consequences.attempt_over(visit.rid, visit.att)
        if stake is not None and stake.att < visit.att:
            self.claims.supersede(stake, visit.att)
        refusals = self.admission.why_not(source, visit, now)
        if refusals and stake is not None:
            self.claims.clear(stake)
        lack = None
        if not refusals:
            lack = self.admission.take(source, stake, visit, now)
            resume = partial(self.visit, source, visit, may_recall=False)
            if lack and may_recall and self.visitors.ask_back(visit, lack.needs, now, resume):
                return
        self.lists.answered(visit.rid)
        if lack is not None:
            refusals = self.admission.no_room(lack, now)
        if not refusals:
            self._accept(source, self.stakes[visit.rid], visit, now)
        elif visit.queue and visit.mode == "hold" and lack and lack.held:
            yielded = place is not None and place.yielded
            self.wound_wait.stand(source, visit, lack.needs, refusals, now, yielded=yielded)
        else:
            self._turn_down(source, visit, refusals)

    def _is_answered_later(self, stake: Stake | None) -> bool:
        """Whether the site cannot tell yet what it has promised: without an answer, brokers ask again.

        A site that is drained refuses at once, except what its owner thinks about.
        """
        petition = stake.petition if stake is not None else None
        thinks = petition is not None and petition.stands
        unsure = self.admission.recovery.refusal() is not None
        return unsure and (thinks or not self.admission.draining)

    def _repeat_visit(self, source: str, stake: Stake, visit: m.Visit, now: Moment) -> None:
        """The answer follows from the state: a vote that found only a hold promises it now."""
        if stake.has("intended"):
            return  # The answer follows once its grants are decided.
        if stake.has("held") and any(claim.common for claim in stake.claims):
            detail = "an agent has held other slots for this attempt"
            refusal = self.here.refusal(RefusalCode.BUSY, detail)
            self._turn_down(source, visit, (refusal,))
            return
        if visit.mode == "vote" and stake.has("held"):
            if self.admission.recovery.awaits_brokers():
                return
            named = {claim.hold_id for claim in stake.claims}
            refusals = self.admission.why_not_promise(stake, named, now)
            if refusals:
                self._turn_down(source, visit, refusals)
                return
            self.claims.promise_held(stake, "visit-vote", now)
        self._accept(source, stake, visit, now)

    def _accept(self, source: str, stake: Stake, visit: m.Visit, now: Moment) -> None:
        if stake.has("intended"):
            self._await_grants(stake, now, partial(self._answer_visit, source, stake, visit))
            return
        if stake.has("held"):
            known = self.wound_wait.holders.get(stake.rid)
            recall_ms = known.recall_until_ms if known is not None else 0
            self.wound_wait.held(stake.rid, Holder(source, visit, visit.considered, recall_ms))
        self._answer_visit(source, stake, visit, ())

    def _answer_visit(
        self, source: str, stake: Stake, visit: m.Visit, refusals: tuple[Refusal, ...]
    ) -> None:
        if refusals:
            self._turn_down(source, visit, refusals)
            return
        held = tuple(m.HeldSlot(i, claim.hold_id) for i, claim in enumerate(stake.claims))
        vote: Literal["yes", "none"] = "yes" if stake.has("prepared") else "none"
        approval = bool(self.admission.consent.lacking(stake))
        visited = self.here.visited(
            visit, vote=vote, held=held, approval=approval, cost=self._cost_of(stake)
        )
        self.outbox.send(source, visited)

    def _cost_of(self, stake: Stake | None) -> m.Cost | None:
        if stake is None or stake.bill is None:
            return None
        return self.admission.payments.cost(stake)

    def _turn_down(self, source: str, visit: m.Visit, refusals: tuple[Refusal, ...]) -> None:
        self.outbox.send(source, self.here.turned_down(visit, refusals))

    def _await_grants(
        self, stake: Stake, now: Moment, answer: Callable[[tuple[Refusal, ...]], None]
    ) -> None:
        """Ask for grants; promise once they are given, and `answer` then."""

        def decided(refusals: tuple[Refusal, ...], now: Moment) -> None:
            if refusals:
                self.claims.end_intent(stake, "not-granted")
            else:
                self.claims.promise(stake, "granted", now)
            answer(refusals)

        refusal = self.guard.intend(stake, now, decided)
        if refusal is not None:
            decided((refusal,), now)

    # Prepare: promise what is held

    def prepare(self, source: str, prepare: m.Prepare, now: Moment) -> None:
        """Promise what is held; without an answer, brokers ask again.

        What a restart has kept held may be another's by now, if the store is an older copy: none is given
        until all brokers could say so.
        """
        stake = self.stakes.get(prepare.rid)
        if stake is not None and stake.has("held") and self.admission.recovery.awaits_brokers():
            return
        asked = stake is not None and stake.has("intended")
        vote, refusals = self._vote(prepare, now)
        stake = self.stakes.get(prepare.rid)
        if vote == "yes" and stake is not None and stake.has("intended"):
            if not asked:
                self._await_grants(stake, now, partial(self._answer_prepare, source, prepare))
            return
        self._send_vote(source, prepare, vote, refusals)

    def _answer_prepare(
        self, source: str, prepare: m.Prepare, refusals: tuple[Refusal, ...]
    ) -> None:
        self._send_vote(source, prepare, "no" if refusals else "yes", refusals)

    def _send_vote(
        self, source: str, prepare: m.Prepare, vote: Literal["yes", "no", "stale"],
        refusals: tuple[Refusal, ...],
    ) -> None:  # fmt: skip
        cost = self._cost_of(self.stakes.get(prepare.rid)) if vote == "yes" else None
        voted = m.Voted(
            rid=prepare.rid, att=prepare.att, epoch=self.here.epoch, vote=vote, refusals=refusals,
            cost=cost,
        )  # fmt: skip
        self.outbox.send(source, voted)

    def _vote(
        self, prepare: m.Prepare, now: Moment
    ) -> tuple[Literal["yes", "no", "stale"], tuple[Refusal, ...]]:
        stake = self.stakes.get(prepare.rid)
        if stake is None:
            return "no", (self.here.refusal(RefusalCode.HELD, "the hold has ended"),)
        if prepare.att <= stake.refused or prepare.att < stake.att:
            return "stale", ()
        named = set(prepare.hold_ids)
        if prepare.att > stake.att or not named <= {claim.hold_id for claim in stake.claims}:
            return "no", (self.here.refusal(RefusalCode.HELD, "the hold has ended"),)
        if not stake.has("held"):
            voted = stake.has("intended") or stake.has("prepared") or stake.has("locked")
            return ("yes", ()) if voted else ("stale", ())
        if are_alternatives([claim for claim in stake.claims if claim.hold_id in named]):
            detail = "slots of several common starts are alternatives: only one can be promised"
            return "no", (self.here.refusal(RefusalCode.LIMIT, detail),)
        if prepare.pays is not None and stake.bill is not None:
            paid = self.admission.payments.paid_by(stake, prepare.pays)
            if isinstance(paid, Refusal):
                return "no", (paid,)
            self.claims.bill(stake, paid)
        refusals = self.admission.why_not_promise(stake, named, now)
        if refusals:
            return "no", refusals
        self.claims.prepare(stake, named, prepare, now)
        return "yes", ()

    # Holds

    def release(self, release: m.Release, now: Moment) -> None:
        """Give up these holds, or all when none is named; promises are only decided, not released."""
        self.consequences.released(release, now)
        rid, att, hold_ids = release.rid, release.att, release.hold_ids
        if not hold_ids:
            self.consequences.attempt_over(rid, att)
            self.lists.release(rid, att)
        stake = self.stakes.get(rid)
        if stake is not None and att >= stake.att and stake.has("intended"):
            self.claims.end_intent(stake, "release")
            return
        if stake is None or att < stake.att or not stake.has("held"):
            return
        kept = {claim.hold_id for claim in stake.claims} - set(hold_ids)
        if hold_ids and kept:
            self.claims.keep_only(stake, kept)
        else:
            self.claims.end_hold(stake, "release")

    def renew(self, source: str, renew: m.Renew, now: Moment) -> None:
        stake = self.stakes.get(renew.rid)
        if stake is not None and renew.att < max(stake.att, stake.refused):
            seen = max(stake.att, stake.refused)
            self.outbox.send(source, m.Stale(rid=renew.rid, att=renew.att, seen=seen))
            return
        self.visitors.renewed(renew.rid, source)
        recall_until_ms = self.wound_wait.renewed(renew.rid, source, considered=renew.considered)
        alive = {claim.hold_id for claim in stake.claims} if stake is not None else set()
        # Places in queues end soon, and are not renewed.
        queued = stake is not None and any(machine_of(claim.resource) for claim in stake.claims)
        if stake is not None and stake.has("held") and not queued:
            self.claims.prolong(stake, self.admission.hold_until_ms(renew.hold_ms, now))
        renewed = m.Renewed(
            rid=renew.rid,
            att=renew.att,
            epoch=self.here.epoch,
            kept=tuple(hold_id for hold_id in renew.hold_ids if hold_id in alive),
            lost=tuple(hold_id for hold_id in renew.hold_ids if hold_id not in alive),
            recall_ms=max(recall_until_ms - now.monotonic_ms, 1) if recall_until_ms else 0,
        )
        self.outbox.send(source, renewed)
