"""The site's half of the commit protocol, as a pure state machine.

Messages and the passing of time go in, together with `now`; facts to store, messages to send and
alarms come out (`Effects`; persist before send). A vote of yes is a promise: it ends only by the
register's outcome (Decide, Outcome), by proof of it (a higher attempt, a locked peer), or by so many
durable refusals of peers that a commit can never have happened. The rules of each state are in
`transitions`; what is booked where is `book`'s.

It is built in layers, each a module: `records` (stakes and facts), `forgetting` (what is needed no more),
`deciding` (phase two), `in_doubt` (brokers that are silent), `reclaiming` (owners who need slots back),
`recalling`, `holding` and `visiting` (agents), `taking`, `lining` and `listing` (rules, lines, waiting
lists), and here visits, votes, holds and time. Presumed abort (Mohan and Lindsay 1983) with numbered
attempts; holds that end after Ramamoorthi et al. 1997, section 3.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Literal

from kalends.agents.runs import Outcome
from kalends.contract import calls
from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.claim_sets import Stake
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.occupancy import are_alternatives
from kalends.resource_servers.participation.reclaims import Reclaimed
from kalends.resource_servers.participation.views import look
from kalends.resource_servers.participation.wait_queue import Holder
from kalends.resource_servers.participation.waiting_list_offers import Listing


class Participant(Listing):
    """One site. Not thread-safe; `receive` and `advance` take effect at once in memory.

    See `Records` for what it is made with.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._listen(self.then)

    def _listen(self, then: Consequences) -> None:
        """Connect the parts to what they have to know, each order with its reason."""
        then.committed = (
            # First: it reads the claims as the commit has left them.
            self.reminders.ask_for_locked,
            lambda stake, rid, att: self.in_doubt.forget(rid),
            lambda stake, rid, att: then.on_attempt_over(rid, att),
            # Looks through the line, which its own place has left by then.
            self._end_holding,
            # Last: what is declined goes to those behind, after what the others have freed.
            lambda stake, rid, att: self._leave_list(rid),
        )
        then.refused = (
            lambda stake, att: self.in_doubt.forget(stake.rid),
            lambda stake, att: then.on_attempt_over(stake.rid, att),
            lambda stake, att: self._forget_holder(stake),
        )
        then.superseded = (
            lambda stake: self.in_doubt.forget(stake.rid),
            self._forget_holder,
        )
        then.cleared = (self._forget_holder, self._forget_answered)
        then.cancelled = (self._end_changes,)
        then.promised = (
            lambda stake, now: self._forget_holder(stake),
            self.in_doubt.promised,
        )
        then.attempt_over = (
            # Runs end before the room that they wait for is freed.
            self._end_visits,
            self._end_place,
        )

    # Events in

    def receive(self, source: str, message: m.Message, now: Moment) -> None:
        """Take one message from the session or URL `source`, to which answers go.

        Nothing is answered, and nothing is begun, about a request whose stake cannot be read, or that
        is left alone.
        """
        rid = getattr(message, "rid", "")
        if rid in self.set_aside or rid in self.left_alone:
            return
        self._take_in(source, message, now)
        self._find_takers(now)

    def _take_in(self, source: str, message: m.Message, now: Moment) -> None:
        if isinstance(message, m.Dispatch) and message.way:
            passed_on = self._as_passed_on(message)
            if passed_on is None or not self._is_its_owners(source, passed_on):
                self.outbox.send(
                    source, m.Stale(rid=message.rid, att=message.att, seen=message.att)
                )
                return
            message = passed_on
        if not self._is_its_owners(source, message) or not self._may_vouch(source, message):
            return
        match message:
            case m.Welcome():
                self.welcome(source, message)
                self.meet(source, message, now)
            case m.Compare():
                self.comparison.page(source, message)
            case m.Relock():
                self.comparison.relock(source, message)
            case m.Settled():
                self.recovery.settle(source, now)
            case m.Visit():
                self._visit(source, message, now)
            case m.Dispatch():
                self._dispatch(source, message, now)
            case m.Decide():
                self.outcomes.decide(source, message)
            case m.Prepare():
                self._prepare(source, message, now)
            case m.Query():
                keepings = (self._line.keeping, self._offers)
                view = look(
                    self.book, message, self.here.epoch, now.wall_s, keepings, self._listed,
                    self._registers.of(source),
                )  # fmt: skip
                self.outbox.send(source, view)
            case m.Renew():
                self._renew(source, message, now)
            case m.Release():
                self._release(message.rid, message.att, message.hold_ids)
            case m.Forget():
                self.retention.forget(message.rid)
            case m.Cancel():
                self.outcomes.cancel(source, message)
            case m.Outcome():
                self.in_doubt.outcome(message)
            case m.PeerAsk():
                self.in_doubt.peer_ask(source, message)
            case m.PeerSays():
                self.in_doubt.peer_says(source, message)
            case m.Give():
                self._give(message, now)
            case m.Await():
                self._await(source, message, now)
            case _:
                self.outbox.alarm(f"{type(message).__name__} from {source} is not for a site")

    def advance(self, now: Moment) -> None:
        """Let time pass: end holds, inquire about promises, drop what is no longer needed."""
        self.claims.expire(now.monotonic_ms)
        self._end_overdue(now)
        self._end_recalls(now)
        self._end_leases(now)
        self._end_waits(now)
        self.reminders.advance(now)
        self.recovery.advance(now)
        self.in_doubt.advance(now)
        self.retention.advance(now)
        self._find_takers(now)

    def reclaim(self, body: calls.Reclaim, now: Moment) -> calls.ReclaimView:
        """As below; who waits in line there hears at once that no waiting helps."""
        view = self.reminders.reclaim(body, now)
        self._find_takers(now)
        return view

    def end_reclaim(self, key: str, now: Moment) -> calls.ReclaimView:
        """As below; what came free by it finds its next taker."""
        view = self.reminders.end(key, now)
        self._find_takers(now)
        return view

    def errand_done(self, number: int, outcome: Outcome, now: Moment) -> None:
        """As below; what came free by it finds its next taker."""
        super().errand_done(number, outcome, now)
        self._find_takers(now)

    def relayed(self, number: int, report: m.SiteReport | None, now: Moment) -> None:
        """As below; what came free by it finds its next taker."""
        super().relayed(number, report, now)
        self._find_takers(now)

    def next_deadline_ms(self) -> int:
        """When `advance` has something to do next (monotonic)."""
        times_ms = (
            self.in_doubt.next_deadline_ms(),
            self._next_deadline_ms(),
            self.book.next_expiry_ms(),
            self._next_line_deadline_ms(),
            self._listed.next_deadline_ms(),
            self.reminders.next_deadline_ms(),
            self.recovery.next_deadline_ms(),
            self.retention.next_deadline_ms(),
        )
        return min(each for each in times_ms if each is not None)

    # Calls of the shell that one part answers

    def meet(self, source: str, welcome: m.Welcome, now: Moment) -> None:
        """Answer the broker that has been welcomed, now that there is a session to answer on."""
        self.recovery.meet(source, welcome, self.position, now)

    def heard_clock(self, source: str, wall_ms: int, now: Moment) -> None:
        """The broker at `source` says that it is `wall_ms`."""
        self.retention.heard_clock(source, wall_ms, now)

    def restore_reclaims(self, reclaims: Iterable[Reclaimed], now: Moment) -> None:
        self.reminders.restore(reclaims, now)

    def reclaims(self) -> tuple[calls.ReclaimView, ...]:
        return self.reminders.views()

    def remind_all(self, now: Moment) -> None:
        """A broker has come: ask at once for the reclaimed times that are still booked."""
        self.reminders.remind_all(now)

    @property
    def recovering(self) -> bool:
        return self.recovery.recovering

    def unsettled(self) -> dict[str, int]:
        """The registers that have not compared yet, with the number of their reservations here."""
        return self.recovery.unsettled()

    def go_on(self) -> None:
        """Take new bookings again, whatever has not been compared."""
        self.recovery.go_on()

    def hello(self) -> m.Hello:
        """What a broker is told first on every session."""
        infos = tuple(calendar.info for calendar in self.book.calendars.values())
        return m.Hello(
            site=self.here.name, epoch=self.here.epoch, resources=infos, near=self._agents.near
        )

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
        place = self._line.get(visit.rid)
        if place is not None and place.visit.att == visit.att:
            self._repeat_wait(source, place, now)
            return
        self.then.on_attempt_over(visit.rid, visit.att)
        if stake is not None and stake.att < visit.att:
            self.claims.supersede(stake, visit.att)
        refusals = self._why_not(source, visit, now)
        if refusals and stake is not None:
            self.claims.clear(stake)
        lack = None
        if not refusals:
            lack = self._take(source, stake, visit, now)
            resume = partial(self._visit, source, visit, may_recall=False)
            if lack and may_recall and self._recall(visit, lack.needs, now, resume):
                return
        if (listed := self._listed.get(visit.rid)) is not None:
            self._decline(listed)
        if lack is not None:
            refusals = self._no_room(lack, now)
        if not refusals:
            self._accept(source, self.book.stakes[visit.rid], visit)
        elif visit.queue and visit.mode == "hold" and lack and lack.held:
            yielded = place is not None and place.yielded
            self._stand_in_line(source, visit, lack.needs, refusals, now, yielded=yielded)
        else:
            vote: Literal["no", "none"] = "no" if visit.mode == "vote" else "none"
            self._answer_visit(source, visit, vote, (), refusals)

    def _waits(self, visit: m.Visit) -> bool:
        """Whether this very visit waits already for what agents may give back."""
        waiting = self._waiting.get(visit.rid)
        return waiting is not None and waiting.att == visit.att and visit.rid not in self._visits

    def _repeat_visit(self, source: str, stake: Stake, visit: m.Visit, now: Moment) -> None:
        """The answer follows from the state: a vote that found only a hold promises it now."""
        if stake.has("held") and any(claim.common for claim in stake.claims):
            detail = "an agent has held other slots for this attempt"
            refusal = self.here.refusal(RefusalCode.BUSY, detail)
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
            self.claims.promise_held(stake, "visit-vote", now)
        self._accept(source, stake, visit)

    def _accept(self, source: str, stake: Stake, visit: m.Visit) -> None:
        if stake.has("held"):
            known = self._holders.get(stake.rid)
            recall_ms = known.recall_until_ms if known is not None else 0
            self._holders[stake.rid] = Holder(source, visit, visit.considered, recall_ms)
        held = tuple(m.HeldSlot(i, claim.hold_id) for i, claim in enumerate(stake.claims))
        vote: Literal["yes", "none"] = "yes" if stake.has("prepared") else "none"
        self._answer_visit(source, visit, vote, held, ())

    # Prepare: promise what is held

    def _prepare(self, source: str, prepare: m.Prepare, now: Moment) -> None:
        vote, refusals = self._vote(prepare, now)
        voted = m.Voted(
            rid=prepare.rid, att=prepare.att, epoch=self.here.epoch, vote=vote, refusals=refusals
        )
        self.outbox.send(source, voted)

    def _vote(
        self, prepare: m.Prepare, now: Moment
    ) -> tuple[Literal["yes", "no", "stale"], tuple[Refusal, ...]]:
        stake = self.book.stakes.get(prepare.rid)
        if stake is None:
            return "no", (self.here.refusal(RefusalCode.HELD, "the hold has ended"),)
        if prepare.att <= stake.refused or prepare.att < stake.att:
            return "stale", ()
        named = set(prepare.hold_ids)
        if prepare.att > stake.att or not named <= {claim.hold_id for claim in stake.claims}:
            return "no", (self.here.refusal(RefusalCode.HELD, "the hold has ended"),)
        if not stake.has("held"):
            return ("yes", ()) if stake.has("prepared") or stake.has("locked") else ("stale", ())
        if are_alternatives([claim for claim in stake.claims if claim.hold_id in named]):
            detail = "slots of several common starts are alternatives: only one can be promised"
            return "no", (self.here.refusal(RefusalCode.LIMIT, detail),)
        refusals = self._why_not_promise(stake, named, now)
        if refusals:
            return "no", refusals
        self.claims.keep_only(stake, named)
        stake.parts, stake.need = prepare.parts, prepare.need
        self.claims.promise_held(stake, "prepare", now)
        return "yes", ()

    # Holds

    def _release(self, rid: str, att: int, hold_ids: tuple[int, ...]) -> None:
        """Give up these holds, or all when none is named; promises are only decided, not released."""
        if not hold_ids:
            self.then.on_attempt_over(rid, att)
            listed = self._listed.get(rid)
            if listed is not None and listed.wish.att <= att:
                self._leave_list(rid)
        stake = self.book.stakes.get(rid)
        if stake is None or att < stake.att or not stake.has("held"):
            return
        kept = {claim.hold_id for claim in stake.claims} - set(hold_ids)
        if hold_ids and kept:
            self.claims.keep_only(stake, kept)
            return
        self.claims.end_hold(stake, "release")

    def _renew(self, source: str, renew: m.Renew, now: Moment) -> None:
        stake = self.book.stakes.get(renew.rid)
        if stake is not None and renew.att < max(stake.att, stake.refused):
            seen = max(stake.att, stake.refused)
            self.outbox.send(source, m.Stale(rid=renew.rid, att=renew.att, seen=seen))
            return
        visit = self._visits.get(renew.rid)
        if visit is not None and visit.answered:
            visit.asker = source
            # Its broker has chosen: an agent gives back only what it holds besides.
            visit.answers_recalls = False
        holder = self._holders.get(renew.rid)
        if holder is not None:
            holder.asker, holder.considered = source, renew.considered
        until_ms = holder.recall_until_ms if holder is not None else 0
        alive = {claim.hold_id for claim in stake.claims} if stake is not None else set()
        if stake is not None and stake.has("held"):
            hold_ms = min(renew.hold_ms, self._limits.hold_ms_max)
            self.claims.prolong(stake, now.monotonic_ms + hold_ms)
        renewed = m.Renewed(
            rid=renew.rid,
            att=renew.att,
            epoch=self.here.epoch,
            kept=tuple(hold_id for hold_id in renew.hold_ids if hold_id in alive),
            lost=tuple(hold_id for hold_id in renew.hold_ids if hold_id not in alive),
            recall_ms=max(until_ms - now.monotonic_ms, 1) if until_ms else 0,
        )
        self.outbox.send(source, renewed)
