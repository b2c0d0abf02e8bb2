"""Agents' visits: a script is shown what is free, and what it chooses is checked anew and held.

A Dispatch is answered late: when the run, and every near site that it was passed on to, have
answered or their time is over. Until then nothing is held for it, so nothing needs undoing. A run is
never believed: of its answer only slots that were on offer count, and each must still be allowed and
free. A failed run counts for nothing; the site's default chooses instead, and the booking goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from kalends.agents.runs import RunOutcome, ScriptRun
from kalends.agents.world.answers import BadResult, chosen
from kalends.agents.world.offers import Offer, default_choice, offered, offers
from kalends.agents.world.views import choose_arguments
from kalends.agents.world.visible_calendar import Shown, reached
from kalends.agents.world.zones import zones_of
from kalends.calendars import ResourceCalendar, unknown_resource
from kalends.contract import messages as m
from kalends.contract.common_times import common_times, held_of, seals_of
from kalends.core import limits
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.core.scripts import Ask, HeldChoice, RunCode, Starts, Stop
from kalends.resource_servers.participation.admission import Admission
from kalends.resource_servers.participation.attempts import LiveAttempts
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.contention.room import FreeRoom
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.parts import Plug, Tier, on
from kalends.resource_servers.participation.registers import Registers
from kalends.resource_servers.participation.runs import RunTable
from kalends.resource_servers.participation.this_site import ThisSite
from kalends.resource_servers.participation.visits.agent_holds import AgentHolds
from kalends.resource_servers.participation.visits.agent_recalls import AgentRecalls
from kalends.resource_servers.participation.visits.agent_visits import (
    AgentLimits,
    AgentVisit,
    AgentVisits,
    ScriptCache,
    SlotChoice,
    received,
    sent_texts,
    silent,
)

RUN_MS_MAX: Final = 12_000
"""An engine ends every run long before; a visit does not depend on that."""

RELAY_MS_MAX: Final = 8_000
"""A near site that is silent for longer counts as down; its holds end by themselves."""

EXPLAINED_MAX: Final = 16
"""Asks of one visit for which a site looks up why it has nothing on offer."""

TRIED_MAX: Final = 16
"""Common starts, evenly over all, that are looked at: an explanation, not a proof."""

NO_CHOICE: Final = SlotChoice("ok", ())


@dataclass(eq=False)
class VisitHandler:
    """Answers Dispatch: from then on the claims are as those of any other visit."""

    here: ThisSite
    book: ClaimTable
    claims: Claims
    consequences: Consequences
    attempts: LiveAttempts
    room: FreeRoom
    admission: Admission
    visits: AgentVisits
    runs: RunTable
    recalls: AgentRecalls
    holds: AgentHolds
    registers: Registers
    outbox: ParticipantOutbox
    agents: AgentLimits
    _scripts: ScriptCache = field(init=False, default_factory=ScriptCache)

    @property
    def plug(self) -> Plug:
        return Plug(
            Tier.WAITS,
            handles=[on(m.Dispatch, self.dispatch, refuse=self._turn_down)],
            att_of=self.visits.att_of,
            secret_of=self.visits.secret_of,
        )

    def dispatch(self, source: str, dispatch: m.Dispatch, now: Moment) -> None:
        if self.attempts.is_stale(source, dispatch.rid, dispatch.att):
            return
        stake = self.book.stakes.get(dispatch.rid)
        visit = self.visits.get(dispatch.rid)
        if visit is not None and visit.att == dispatch.att:
            self._ask_again(source, visit, dispatch)
            return
        if stake is not None and stake.att == dispatch.att and stake.claims:
            self.outbox.send(source, self._report_anew(stake, dispatch))
            return
        self.consequences.attempt_over(dispatch.rid, dispatch.att)
        if stake is not None and stake.att < dispatch.att:
            self.claims.supersede(stake, dispatch.att)
            self.claims.clear(stake)
        self._begin(source, dispatch, now)

    def _ask_again(self, source: str, visit: AgentVisit, dispatch: m.Dispatch) -> None:
        """Answer a repeated visit; near sites that it does not name any more are not waited for."""
        visit.asker = source
        visit.dispatch = msgspec.structs.replace(
            visit.dispatch, near=dispatch.near and visit.dispatch.near, meet=dispatch.meet,
            way=dispatch.way, register=dispatch.register,
        )  # fmt: skip
        if not dispatch.near:
            for number in visit.relays:
                self.runs.drop(number)
            visit.relays.clear()
        if visit.answered:
            stake = self.book.stakes.get(dispatch.rid)
            self._tell(visit, stake.claims if stake is not None else ())
        else:
            self._answer_when_whole(visit)

    def _near_answered(
        self, visit: AgentVisit, site: str, number: int, report: m.SiteReport | None
    ) -> None:
        """Take the answer of a near site to a relayed visit, or None for silence."""
        visit.relays.discard(number)
        if report is None or report.site != site:
            report = silent(site, f"it did not answer {self.here.name}")
        visit.near[site] = report
        self._answer_when_whole(visit)

    # Beginning: is it welcome, what is the script, who else is to be visited

    def _begin(self, source: str, dispatch: m.Dispatch, now: Moment) -> None:
        refusal = self._not_now(dispatch)
        if refusal is not None:
            self._turn_away(source, dispatch, "ok", refusal.detail, (refusal,))
            return
        try:
            script = self._scripts.take(dispatch.script, dispatch.source)
        except ValueError as error:
            self._turn_away(source, dispatch, "rejected", str(error))
            return
        if script is None:
            self._turn_away(source, dispatch, "unknown-script", "send the source with the message")
            return
        stops = tuple({stop.site: stop for stop in dispatch.near}.values())
        visit = AgentVisit(msgspec.structs.replace(dispatch, source=script, near=stops), source)
        register = self.registers.of_visit(source, dispatch)
        visit.through = self.registers.badge(register).through
        self.visits.begin(visit)
        for stop in visit.dispatch.near:
            self._pass_on(visit, stop, now)
        self._send_agent(visit, now)

    def _not_now(self, dispatch: m.Dispatch) -> Refusal | None:
        if closed := self.admission.closed():
            return closed
        if self.admission.room_of(dispatch.principal.user) <= 0:
            return self.admission.too_many_holds()
        return None

    def _turn_down(self, source: str, dispatch: m.Dispatch, refusals: tuple[Refusal, ...]) -> None:
        """Refuse an agent whose register may not speak for its user; near sites judge for themselves."""
        own = m.SiteReport(
            self.here.name, self.here.epoch, detail=refusals[0].detail, refusals=refusals
        )
        self.outbox.send(source, m.Report(rid=dispatch.rid, att=dispatch.att, sites=(own,)))

    def _turn_away(
        self, source: str, dispatch: m.Dispatch, code: RunCode, detail: str,
        refusals: tuple[Refusal, ...] = (),
    ) -> None:  # fmt: skip
        """Answer at once; nothing is held, run, passed on or remembered."""
        own = m.SiteReport(self.here.name, self.here.epoch, code, detail, refusals=refusals)
        near = (
            msgspec.structs.replace(silent(stop.site, f"not visited: {detail}"), code=code)
            for stop in dispatch.near
        )
        self.outbox.send(source, m.Report(rid=dispatch.rid, att=dispatch.att, sites=(own, *near)))

    def _pass_on(self, visit: AgentVisit, stop: Stop, now: Moment) -> None:
        if stop.site not in self.agents.near:
            visit.near[stop.site] = silent(stop.site, f"{self.here.name} passes no visits on to it")
            return
        # What proves us to other sites is not for this one: its broker tells it its own.
        parts = tuple(m.Part(part.site, part.url) for part in visit.dispatch.parts)
        dispatch = msgspec.structs.replace(
            visit.dispatch, asks=stop.asks, near=(), meet=(), register=self.registers.of(visit.asker),
            way=self.here.name, secret=stop.secret or visit.dispatch.secret, parts=parts,
        )  # fmt: skip
        answered = partial(self._near_answered, visit, stop.site)
        visit.relays.add(self.runs.pass_on(stop.site, dispatch, now, RELAY_MS_MAX, answered))

    # The run

    def _send_agent(self, visit: AgentVisit, now: Moment) -> None:
        """Show the script what is free now."""
        shown = self._look(visit, now)
        if not visit.offers:
            self._conclude(visit, self._nothing_offered(visit, now))
        elif not self.agents.enabled:
            detail = "the owner of this site runs no agents"
            self._settle(visit, self._by_default(visit, "sandbox-unavailable", detail), now)
        elif not self.runs.has_room(visit.dispatch.principal.user):
            self._settle(visit, self._by_default(visit, "busy", "too many runs are under way"), now)
        else:
            job = self._choose_job(visit, shown, now)
            visit.errand = self.runs.set_out(
                visit.dispatch.rid, job, now, RUN_MS_MAX, partial(self._ran, visit)
            )
            visit.run = str(visit.errand)

    def _look(self, visit: AgentVisit, now: Moment) -> dict[str, Shown]:
        """Renew the offers of `visit`; what they were made of."""
        asks, starts = visit.dispatch.asks, visit.dispatch.starts
        first = min(starts.first + ask.offset_s for ask in asks)
        last = max(starts.last + ask.offset_s + ask.length_s for ask in asks)
        shown = self.room.show(
            visit.dispatch.principal, [ask.resource for ask in asks], first, last, now.wall_s,
            self.room.order_of(visit.dispatch.principal, visit.dispatch.stamp, visit.dispatch.rid, asks),
        )  # fmt: skip
        visit.offers = offers(shown, asks, starts, limits.OFFERS_MAX)
        return shown

    def _choose_job(self, visit: AgentVisit, shown: dict[str, Shown], now: Moment) -> ScriptRun:
        dispatch = visit.dispatch
        user = dispatch.principal.user
        arguments = choose_arguments(
            self.here.name, user, reached(shown, visit.through), visit.offers, dispatch.asks,
            dispatch.starts, dispatch.text, dispatch.arguments, dispatch.round,
            min(self.agents.held_max, self.admission.room_of(user)), now.wall_s,
        )  # fmt: skip
        first = min(offer.start for offer in visit.offers)
        last = max(offer.end for offer in visit.offers)
        zones = zones_of(shown, first, last, dispatch.arguments)
        return ScriptRun(
            user, dispatch.source, "choose", arguments, received(dispatch.inbox), zones
        )

    def _ran(self, visit: AgentVisit, number: int, outcome: RunOutcome, now: Moment) -> None:
        visit.errand = 0
        code, detail, line = outcome.code, outcome.detail, outcome.line
        if code == "ok":
            try:
                slots = chosen(outcome.answer, visit.offers)
                choice = SlotChoice("ok", slots, sent=sent_texts(outcome.sent))
            except BadResult as error:
                code, detail = "bad-result", error.detail
        if code != "ok":
            choice = self._by_default(visit, code, detail, line)
        self._settle(visit, choice, now)

    def _by_default(
        self, visit: AgentVisit, code: RunCode, detail: str, line: int = 0
    ) -> SlotChoice:
        return SlotChoice(code, default_choice(visit.offers), detail, line)

    # Holding what was chosen

    def _settle(
        self, visit: AgentVisit, choice: SlotChoice, now: Moment, *, may_recall: bool = True
    ) -> None:
        """Hold what is still allowed and free, best first; try again where all of it was taken."""
        if closed := self.admission.closed():
            self._conclude(visit, self._told(visit, choice, (), (closed,)))
            return
        if self.admission.rulings.decides:
            again = partial(self._settle, visit, choice, may_recall=may_recall)
            wants = [
                (m.Want(each.resource, each.start, each.end, each.units), each.common)
                for each in choice.slots
            ]
            if self.admission.rulings.awaits(visit.dispatch, wants, now, again):
                return
        held, refusals, taken = self.holds.hold(visit, choice, now)
        lost = None if held else taken
        if lost is not None and self._try_again(visit, choice, lost, may_recall, now):
            return
        self._conclude(visit, self._told(visit, choice, held, refusals))

    def _try_again(
        self, visit: AgentVisit, choice: SlotChoice, taken: Offer, may_recall: bool, now: Moment
    ) -> bool:
        """Everything was taken while the agent ran: ask for it, look again, or choose by default."""
        gap_s = self.book.calendars[taken.resource].gap_s
        needs = [(taken.resource, taken.start, taken.end + gap_s, taken.units)]
        resume = partial(self._settle, visit, choice, may_recall=False)
        if may_recall and self.recalls.ask(visit.dispatch, needs, now, resume):
            return True
        if choice.code == "ok" and not visit.ran_again:
            visit.ran_again = True
            self._send_agent(visit, now)
            return True
        if visit.fell_back:
            return False
        visit.fell_back = True
        if choice.code == "ok":
            detail = "the slots that the agent chose were taken while it ran, twice"
            choice = SlotChoice("busy", (), detail)
        self._look(visit, now)
        if visit.offers:
            choice = self._by_default(visit, choice.code, choice.detail, choice.line)
            self._settle(visit, choice, now)
        else:
            self._conclude(visit, self._nothing_offered(visit, now, choice))
        return True

    # The report

    def _conclude(self, visit: AgentVisit, own: m.SiteReport) -> None:
        visit.own = own
        self._answer_when_whole(visit)

    def _answer_when_whole(self, visit: AgentVisit) -> None:
        if visit.own is None or visit.relays:
            return
        rid = visit.dispatch.rid
        stake = self.book.stakes.get(rid)
        visit.common = self._common(visit, stake.claims if stake is not None else ())
        if stake is not None and visit.common is not None:
            # At other starts nothing is booked: what is held here then serves nobody.
            self._keep_only(stake, held_of(visit.common, 0))
            stake = self.book.stakes.get(rid)
        claims = stake.claims if stake is not None else []
        self._tell(visit, claims)
        visit.answered = True
        visit.offers = []
        if not claims:
            self.visits.forget(rid)

    def _keep_only(self, stake: Stake, hold_ids: Sequence[int]) -> None:
        if hold_ids:
            self.claims.keep_only(stake, hold_ids)
        else:
            self.claims.end_hold(stake, "release")

    def _common(self, visit: AgentVisit, claims: Sequence[Claim]) -> m.CommonTimes | None:
        """The common times of all sites, if they were asked for, and all sites have answered."""
        stops = visit.dispatch.near
        if (
            not visit.dispatch.meet
            or not stops
            or {each.site for each in stops} - visit.near.keys()
        ):
            return None
        asks = {stop.site: stop.asks for stop in stops} | {self.here.name: visit.dispatch.asks}
        reports = (visit.report(claims).sites[0], *(visit.near[stop.site] for stop in stops))
        return common_times(reports, asks, visit.dispatch.meet)

    def _tell(self, visit: AgentVisit, claims: Sequence[Claim]) -> None:
        """Send the answer; a site that passes the visit on gets the proofs, too."""
        dispatch, report = visit.dispatch, visit.report(claims)
        if dispatch.way:
            key = self.registers.secret(dispatch.register)
            (own,) = report.sites
            seals = seals_of(key, dispatch.rid, dispatch.att, own, dispatch.asks) if key else ()
            report = msgspec.structs.replace(
                report, sites=(msgspec.structs.replace(own, seals=seals),)
            )
        elif dispatch.meet and visit.common is not None:
            alive = {claim.hold_id for claim in claims}
            if alive.issuperset(held_of(visit.common, 0)):
                report = m.Report(rid=dispatch.rid, att=dispatch.att, common=visit.common)
        self.outbox.send(visit.asker, report)

    def _told(
        self, visit: AgentVisit, choice: SlotChoice, held: tuple[HeldChoice, ...],
        refusals: tuple[Refusal, ...],
    ) -> m.SiteReport:  # fmt: skip
        """The site's own report."""
        if not held and not refusals:
            refusals = (self.here.refusal(RefusalCode.BUSY, _why_nothing(visit, choice)),)
        return m.SiteReport(
            self.here.name,
            self.here.epoch,
            choice.code,
            choice.detail,
            choice.line,
            held,
            wished=tuple(dict.fromkeys(offer.common for offer in choice.slots)),
            offered=offered(visit.offers, visit.dispatch.starts.step_s),
            refusals=refusals,
            sent=choice.sent,
            run=visit.run,
            approval=self._needs_approval(visit.dispatch, held),
        )

    def _needs_approval(self, dispatch: m.Dispatch, held: Sequence[HeldChoice]) -> bool:
        """Whether the owner has to approve any of what is `held`."""
        wants = [m.Want(each.resource, each.start, each.end, each.units) for each in held]
        return bool(self.admission.consent.needed(dispatch.rid, dispatch.principal, wants))

    def _nothing_offered(
        self, visit: AgentVisit, now: Moment, choice: SlotChoice = NO_CHOICE
    ) -> m.SiteReport:
        dispatch = visit.dispatch
        refusals = tuple(
            _why_unoffered(
                self.book.calendars, dispatch.principal, ask, dispatch.starts, now.wall_s
            )
            for ask in dispatch.asks[:EXPLAINED_MAX]
        )
        return m.SiteReport(
            self.here.name, self.here.epoch, choice.code, choice.detail, choice.line, refusals=refusals,
            run=visit.run,
        )  # fmt: skip

    def _report_anew(self, stake: Stake, dispatch: m.Dispatch) -> m.Report:
        """What is claimed for this attempt, as far as it answers the visit: its report is lost."""
        held = tuple(
            HeldChoice(
                claim.hold_id, ask.term, claim.resource, claim.start, claim.end, claim.units,
                claim.common,
            )
            for claim in stake.claims
            for ask in dispatch.asks
            if (ask.resource, ask.units, ask.length_s, claim.common + ask.offset_s)
            == (claim.resource, claim.units, claim.end - claim.start, claim.start)
        )  # fmt: skip
        other = self.here.refusal(
            RefusalCode.BUSY, "this attempt has claimed other slots here already"
        )
        own = m.SiteReport(
            self.here.name, self.here.epoch, held=held, refusals=() if held else (other,),
            approval=self._needs_approval(dispatch, held),
        )  # fmt: skip
        near = (silent(stop.site, "not visited again") for stop in dispatch.near)
        return m.Report(rid=dispatch.rid, att=dispatch.att, sites=(own, *near))


def _why_nothing(visit: AgentVisit, choice: SlotChoice) -> str:
    if choice.slots:
        return "all slots that it chose were taken while it ran"
    return f"the agent chose none of {len(visit.offers)} slots on offer"


def _why_unoffered(
    calendars: Mapping[str, ResourceCalendar],
    principal: Principal,
    ask: Ask,
    starts: Starts,
    wall_s: int,
) -> Refusal:
    """The refusal for `ask`, which no common start of `starts` could serve."""
    calendar = calendars.get(ask.resource)
    if calendar is None:
        return unknown_resource(ask.resource)
    by_rule: Refusal | None = None
    for common in _some(starts):
        start = calendar.grain.ceil(common + ask.offset_s)
        end = calendar.grain.end_of(start, ask.length_s)
        refusal = calendar.refusal(principal, ("hold",), start, end, ask.units, wall_s)
        if refusal is None:
            return calendar.busy(principal, start, end, ask.units, wall_s)
        by_rule = by_rule or refusal
    return by_rule or unknown_resource(ask.resource)


def _some(starts: Starts) -> Iterator[int]:
    if starts.only:
        yield from starts.only[:: max(1, len(starts.only) // TRIED_MAX)]
        return
    count = max(0, starts.last - starts.first) // starts.step_s + 1
    for number in range(min(count, TRIED_MAX)):
        yield starts.first + starts.step_s * (
            number * count // TRIED_MAX if count > TRIED_MAX else number
        )
