"""The site's half of the commit protocol, as a pure state machine.

Messages and the passing of time go in, together with `now`; facts to store, messages to send and
alarms come out (`Effects`; persist before send). A vote of yes is a promise: it ends only by the
register's outcome (Decide, Outcome), by proof of it (a higher attempt, a locked peer), or by so many
durable refusals of peers that a commit can never have happened. The rules of each state are in
`transitions`; what is booked where is `book`'s.

It is built in layers, each a module: `records` (stakes and facts), `deciding` (phase two), `in_doubt`
(brokers that are silent), `recalling`, `holding` and `visiting` (agents), and here visits, votes, holds
and time. Presumed abort (Mohan and Lindsay 1983) with numbered attempts; holds that end after
Ramamoorthi et al. 1997, section 3.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import partial
from typing import Literal

from kalends.core import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.resource_servers.occupancy import Piece, are_alternatives
from kalends.resource_servers.records import COLLECT_EVERY_MS
from kalends.resource_servers.stakes import Claim, Stake
from kalends.resource_servers.transitions import ClaimEvent
from kalends.resource_servers.views import look
from kalends.resource_servers.visiting import Visiting


class Participant(Visiting):
    """One site. Not thread-safe; `receive` and `advance` take effect at once in memory.

    See `Records` for what it is made with.
    """

    # Events in

    def receive(self, source: str, message: m.Message, now: Moment) -> None:
        """Take one message from the session or URL `source`, to which answers go."""
        match message:
            case m.Visit():
                self._visit(source, message, now)
            case m.Dispatch():
                self._dispatch(source, message, now)
            case m.Decide():
                self._decide(source, message)
            case m.Prepare():
                self._prepare(source, message, now)
            case m.Query():
                view = look(self.book, message, self.epoch, now.wall_s)
                self._send(source, view)
            case m.Renew():
                self._renew(source, message, now)
            case m.Release():
                self._release(message.rid, message.att, message.hold_ids)
            case m.Forget():
                if message.rid in self.book.stakes:
                    self._forgettable.add(message.rid)
            case m.Cancel():
                self._cancel(source, message)
            case m.Outcome():
                self._outcome(message)
            case m.PeerAsk():
                self._peer_ask(source, message)
            case m.PeerSays():
                self._peer_says(message)
            case m.Give():
                if message.hold_ids:
                    self._release(message.rid, message.att, message.hold_ids)
            case _:
                self._alarm(f"{type(message).__name__} from {source} is not for a site")

    def advance(self, now: Moment) -> None:
        """Let time pass: end holds, inquire about promises, drop what is no longer needed."""
        for stake in self.book.expire(now.monotonic_ms):
            self._move(stake, "expiry")
            self._clear(stake)
        self._end_overdue(now)
        while self._inquiries and self._inquiries[0][0] <= now.monotonic_ms:
            _, rid, att, count = heapq.heappop(self._inquiries)
            self._inquire(rid, att, count, now)
        if self._collect_at_ms <= now.monotonic_ms:
            self._collect_at_ms = now.monotonic_ms + COLLECT_EVERY_MS
            self._collect(now)

    def next_deadline_ms(self) -> int:
        """When `advance` has something to do next (monotonic)."""
        expiry_ms = self.book.next_expiry_ms()
        inquiry_ms = self._inquiries[0][0] if self._inquiries else self._collect_at_ms
        agent_ms = self._next_deadline_ms() or self._collect_at_ms
        return min(self._collect_at_ms, inquiry_ms, agent_ms, expiry_ms or self._collect_at_ms)

    def hello(self) -> m.Hello:
        """What a broker is told first on every session."""
        infos = tuple(calendar.info for calendar in self.book.calendars.values())
        return m.Hello(site=self.site, epoch=self.epoch, resources=infos, near=self._agents.near)

    # Visit: hold, or promise at once

    def _visit(self, source: str, visit: m.Visit, now: Moment, *, may_recall: bool = True) -> None:
        if self._stale(source, visit.rid, visit.att):
            return
        stake = self.book.stakes.get(visit.rid)
        if stake is not None and stake.att == visit.att and stake.claims:
            self._repeat_visit(source, stake, visit, now)
            return
        if self._waits(visit):
            return
        self._end_visits(visit.rid, visit.att)
        if stake is not None and stake.att < visit.att:
            self._supersede(stake, visit.att)
        refusals = self._why_not(visit, now)
        if refusals and stake is not None:
            self._clear(stake)
        if not refusals:
            refusals, needs = self._take(stake, visit, now)
            resume = partial(self._visit, source, visit, may_recall=False)
            if needs and may_recall and self._recall(visit, needs, now, resume):
                return
        if refusals:
            self._answer_visit(
                source, visit, "no" if visit.mode == "vote" else "none", (), refusals
            )
            return
        self._accept(source, self.book.stakes[visit.rid], visit)

    def _waits(self, visit: m.Visit) -> bool:
        """Whether this very visit waits already for what agents may give back."""
        waiting = self._waiting.get(visit.rid)
        return waiting is not None and waiting.att == visit.att and visit.rid not in self._visits

    def _repeat_visit(self, source: str, stake: Stake, visit: m.Visit, now: Moment) -> None:
        """The answer follows from the state: a vote that found only a hold promises it now."""
        if stake.has("held") and any(claim.common for claim in stake.claims):
            detail = "an agent has held other slots for this attempt"
            refusal = self._refuse(RefusalCode.BUSY, detail)
            self._answer_visit(
                source, visit, "no" if visit.mode == "vote" else "none", (), (refusal,)
            )
            return
        if visit.mode == "vote" and stake.has("held"):
            named = {claim.hold_id for claim in stake.claims}
            refusals = self._why_not_promise(stake, named, now)
            if refusals:
                self._answer_visit(source, visit, "no", (), refusals)
                return
            self.book.restate(stake, "prepared", None)
            self._promise(stake, "visit-vote", now)
        self._accept(source, stake, visit)

    def _why_not(self, visit: m.Visit, now: Moment) -> tuple[Refusal, ...]:
        """The refusals by rules and limits; occupancy is `_take`'s."""
        if self.draining:
            return (self._refuse(RefusalCode.DRAINED, "the owner takes no new claims now"),)
        user = visit.principal.user
        state: Literal["held", "prepared"] = "prepared" if visit.mode == "vote" else "held"
        count_max = (
            self._limits.promised_per_principal_max
            if state == "prepared"
            else self._limits.held_per_principal_max
        )
        if self.book.count(user, state) + len(visit.wants) > count_max:
            detail = f"more than {count_max} claims of one user would be {state} at once"
            return (self._refuse(RefusalCode.LIMIT, detail),)
        if any(want.end <= self.horizon_s for want in visit.wants):
            return (self._refuse(RefusalCode.PAST, "the records of that time are closed"),)
        if visit.replaces:
            refusal = self._refuse_change(visit)
            if refusal is not None:
                return (refusal,)
        actions = ("hold", "lock") if visit.mode == "vote" else ("hold",)
        return tuple(self.book.refusals(visit.principal, visit.wants, actions, now.wall_s))

    def _refuse_change(self, visit: m.Visit) -> Refusal | None:
        old = self.book.stakes.get(visit.replaces)
        if old is None or not old.has("locked") or old.principal.user != visit.principal.user:
            detail = "the reservation to change is not locked here for this user"
            return self._refuse(RefusalCode.BEING_CHANGED, detail)
        if self.book.changer_of(visit.replaces) not in ("", visit.rid):
            detail = "another change of this reservation is under way"
            return self._refuse(RefusalCode.BEING_CHANGED, detail)
        return None

    def _take(
        self, before: Stake | None, visit: m.Visit, now: Moment
    ) -> tuple[tuple[Refusal, ...], Sequence[Piece]]:
        """Book every want of the visit, or none: then say which has no room, and what was needed."""
        stake = self._stake_for(before, visit)
        self.book.stakes[visit.rid] = stake
        if visit.mode == "vote":
            full = self.book.occupy(stake, "prepared", None)
        else:
            hold_ms = min(visit.hold_ms, self._limits.hold_ms_max)
            full = self.book.occupy(stake, "held", now.monotonic_ms + hold_ms)
        if full:
            refusals = self.book.busy(stake, full, now.wall_s)
            needs = self.book.needs(stake)
            self._clear(stake)
            return refusals, needs
        if visit.mode == "vote":
            self._promise(stake, "visit-vote", now)
        else:
            for claim in stake.claims:
                if claim.state == "absent":
                    claim.move("visit-hold")
        return (), ()

    def _stake_for(self, before: Stake | None, visit: m.Visit) -> Stake:
        """The stake of this attempt; a want that was held before keeps its hold id."""
        kept = {(c.resource, c.start, c.end, c.units): c for c in before.claims} if before else {}
        claims = []
        for want in visit.wants:
            claim = kept.pop((want.resource, want.start, want.end, want.units), None)
            if claim is None or claim.state != "held" or claim.common or visit.mode == "vote":
                claim = Claim(self._new_id(), want.resource, want.start, want.end, want.units)
            claims.append(claim)
        ends_at = max(want.end for want in visit.wants)
        return Stake(
            rid=visit.rid,
            att=visit.att,
            principal=visit.principal,
            secret=visit.secret,
            need=visit.need,
            parts=visit.parts,
            coords=visit.coords,
            claims=claims,
            refused=before.refused if before else 0,
            replaces=visit.replaces,
            ends_at=max(ends_at, before.ends_at if before else 0),
        )

    def _accept(self, source: str, stake: Stake, visit: m.Visit) -> None:
        held = tuple(m.HeldSlot(i, claim.hold_id) for i, claim in enumerate(stake.claims))
        vote: Literal["yes", "none"] = "yes" if stake.has("prepared") else "none"
        self._answer_visit(source, visit, vote, held, ())

    def _answer_visit(
        self,
        source: str,
        visit: m.Visit,
        vote: Literal["yes", "no", "none"],
        held: tuple[m.HeldSlot, ...],
        refusals: tuple[Refusal, ...],
    ) -> None:
        visited = m.Visited(
            rid=visit.rid, att=visit.att, epoch=self.epoch, vote=vote, held=held, refusals=refusals
        )
        self._send(source, visited)

    # Prepare: promise what is held

    def _prepare(self, source: str, prepare: m.Prepare, now: Moment) -> None:
        vote, refusals = self._vote(prepare, now)
        voted = m.Voted(
            rid=prepare.rid, att=prepare.att, epoch=self.epoch, vote=vote, refusals=refusals
        )
        self._send(source, voted)

    def _vote(
        self, prepare: m.Prepare, now: Moment
    ) -> tuple[Literal["yes", "no", "stale"], tuple[Refusal, ...]]:
        stake = self.book.stakes.get(prepare.rid)
        if stake is None:
            return "no", (self._refuse(RefusalCode.BUSY, "the hold has ended"),)
        if prepare.att <= stake.refused or prepare.att < stake.att:
            return "stale", ()
        named = set(prepare.hold_ids)
        if prepare.att > stake.att or not named <= {claim.hold_id for claim in stake.claims}:
            return "no", (self._refuse(RefusalCode.BUSY, "the hold has ended"),)
        if not stake.has("held"):
            return ("yes", ()) if stake.has("prepared") or stake.has("locked") else ("stale", ())
        if are_alternatives([claim for claim in stake.claims if claim.hold_id in named]):
            detail = "slots of several common starts are alternatives: only one can be promised"
            return "no", (self._refuse(RefusalCode.LIMIT, detail),)
        refusals = self._why_not_promise(stake, named, now)
        if refusals:
            return "no", refusals
        self.book.keep_only(stake, named)
        self.book.restate(stake, "prepared", None)
        stake.parts, stake.need = prepare.parts, prepare.need
        self._promise(stake, "prepare", now)
        return "yes", ()

    def _why_not_promise(self, stake: Stake, named: set[int], now: Moment) -> tuple[Refusal, ...]:
        """The owner may still say no here, and never after."""
        user = stake.principal.user
        if self.book.count(user, "prepared") + len(named) > self._limits.promised_per_principal_max:
            return (self._refuse(RefusalCode.LIMIT, "too many promises to one user at once"),)
        wants = [
            m.Want(claim.resource, claim.start, claim.end, claim.units)
            for claim in stake.claims
            if claim.hold_id in named
        ]
        return tuple(self.book.refusals(stake.principal, wants, ("lock",), now.wall_s))

    def _promise(self, stake: Stake, event: ClaimEvent, now: Moment) -> None:
        self._move(stake, event)
        self._store(stake, event)
        self._inquire_later(stake, now, 0)

    # Holds

    def _release(self, rid: str, att: int, hold_ids: tuple[int, ...]) -> None:
        """Give up these holds, or all when none is named; promises are only decided, not released."""
        if not hold_ids:
            self._end_visits(rid, att)
        stake = self.book.stakes.get(rid)
        if stake is None or att < stake.att or not stake.has("held"):
            return
        kept = {claim.hold_id for claim in stake.claims} - set(hold_ids)
        if hold_ids and kept:
            self.book.keep_only(stake, kept)
            return
        self.book.vacate(stake)
        self._move(stake, "release")
        self._clear(stake)

    def _renew(self, source: str, renew: m.Renew, now: Moment) -> None:
        stake = self.book.stakes.get(renew.rid)
        if stake is not None and renew.att < max(stake.att, stake.refused):
            seen = max(stake.att, stake.refused)
            self._send(source, m.Stale(rid=renew.rid, att=renew.att, seen=seen))
            return
        visit = self._visits.get(renew.rid)
        if visit is not None and visit.answered:
            visit.asker = source
            # Its broker has chosen: an agent gives back only what it holds besides.
            visit.answers_recalls = False
        alive = {claim.hold_id for claim in stake.claims} if stake is not None else set()
        if stake is not None and stake.has("held"):
            hold_ms = min(renew.hold_ms, self._limits.hold_ms_max)
            self.book.restate(stake, "held", now.monotonic_ms + hold_ms)
        renewed = m.Renewed(
            rid=renew.rid,
            att=renew.att,
            epoch=self.epoch,
            kept=tuple(hold_id for hold_id in renew.hold_ids if hold_id in alive),
            lost=tuple(hold_id for hold_id in renew.hold_ids if hold_id not in alive),
        )
        self._send(source, renewed)
