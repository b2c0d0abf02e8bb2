"""Attempts whose slots an agent chooses at the sites: one visit looks, chooses and holds.

A round sends the agent to every site concerned. Once all have reported, the best common start that
is held everywhere goes on like any that was held: to be promised, or to wait for its user. Without
one, the next round is about starts that the agent has chosen everywhere, else about all that every
site offered. What it leaves out to the last round is not booked: a script is a filter, and choosing
nothing is a no. Only where there was nothing to choose the ordinary planner finds a start, or says why
there is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec.structs import replace

from kalends.broker.coordination.agents.agent_choice import Choice
from kalends.broker.coordination.agents.agent_events import AgentEvents
from kalends.broker.coordination.agents.itinerary import (
    AGREE_MAX,
    TOURS_MAX,
    Tour,
    failed_visits,
    left_out,
    must_run,
    planned_tour,
)
from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.parts import CoordinatorPart, PhaseOwner, after, on
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.event_log import EventLog
from kalends.broker.coordination.transaction import Branch, Transaction
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.coordination.trust.answer_checks import AnswerChecks
from kalends.broker.coordination.trust.credentials import Credentials, Identity
from kalends.broker.coordination.voting.prepare_phase import HOLD_MS, PreparePhase, no_answers
from kalends.broker.planning.directory import Directory
from kalends.contract import messages as m
from kalends.contract.common_times import is_proved, is_sealed, report_in
from kalends.contract.messages import SiteReport, Want
from kalends.core.errors import LimitExceeded, LostRace, Refusal
from kalends.core.identifiers import split_resource
from kalends.core.intervals import Moment
from kalends.core.limits import AGENT_MESSAGES_MAX, REQUEST_TEXT_MAX
from kalends.core.scripts import Stop, asked_for

SILENT_WAY_MS: Final = 4_000
"""The pause after which a site is asked once more; from this one on, sites near it are asked themselves."""

UNKNOWN_MAX: Final = 3
"""Sendings of the source after which a site that still does not know it counts as one without agents."""

CALLS_KEPT_MAX: Final = 64
SEEN_MAX: Final = 256
"""Scripts that a site is believed to know, as many as it remembers: of others it says that it does not."""


class ClientWord(NamedTuple):
    """A client's call about its agent: a `message` for it, or another agent, by `spec` and its `source`."""

    key: str
    digest: str
    message: str = ""
    spec: r.Spec | None = None
    source: str = ""


@dataclass(eq=False)
class AgentDispatch:
    """Agents on their way. The source of a script comes with the request, or with its take-over."""

    identity: Identity
    directory: Directory
    table: TransactionTable
    outbox: CoordinatorOutbox
    log: EventLog
    credentials: Credentials
    prepare: PreparePhase
    checks: AnswerChecks
    events: AgentEvents
    _seen: dict[str, dict[str, None]] = field(init=False, default_factory=dict)
    """For each site the scripts that it has been sent in this session, oldest first."""

    def keep_source(self, case: Transaction, source: str) -> None:
        """Take the source of the script of `case`; "" if it has none, or if that is not stored any more."""
        case.agent.source = source

    def raised(self, op: r.Raise, result: r.Registered, now: Moment) -> None:
        """Take the source that was asked for with the next attempt."""
        case = self.table.asker(op)
        if case is not None and result.source:
            self.keep_source(case, result.source)

    @property
    def part(self) -> CoordinatorPart:
        touring = PhaseOwner(
            ("touring",), resend=self.resend, too_late=self.toured, over=self.over,
            site_back=self.site_back,
        )  # fmt: skip
        return CoordinatorPart(
            handles=(on(m.Report, self.reported),), phases=(touring,), begins=self.begins,
            greeted=self.forget_scripts, follows=(after(r.Raise, self.raised),),
        )  # fmt: skip

    def begins(self, case: Transaction, now: Moment) -> bool:
        """Send the agent, unless owners are to approve its choice; its last round counts no more."""
        case.agent.tour = None
        return not case.record.owners.approve and self.tour(case, now)

    def tour(self, case: Transaction, now: Moment) -> bool:
        """Send the agent, if there is one and it has rounds left and something to choose."""
        record = case.record
        spec = record.spec
        if spec.script and case.fixed and record.att == 1 and case.phase == "new":
            self.log.add(
                case, "agent", "the request names its slots, so the agent has no choice", now
            )
        over = case.cancel_wanted or record.held_until_ms or record.agent.rounds >= TOURS_MAX
        if not spec.script or over:
            return False
        if case.fixed:
            return self._without(case, "has no choice: the request names its slots", now)
        if not case.agent.source:
            record.agent = replace(record.agent, rounds=TOURS_MAX)
            self.log.add(case, "agent", "its script is no longer stored; booking without it", now)
            return self._without(case, "its script is no longer stored", now)
        tour = planned_tour(
            spec.request, self.directory, case.tries.shunned, record.agent.only, now.wall_s
        )
        if tour is None:
            return False
        tour.inbox = record.agent.inbox[:AGENT_MESSAGES_MAX]
        record.wants = ()
        case.agent.tour = tour
        case.tries.refusals = []
        case.enter("tour")
        case.parts = {site: Branch(site, ()) for site in tour.asks}
        self.prepare.wait_for_votes(case, now)
        for site in tour.stops:
            self._dispatch(case, tour, site)
        return True

    def _without(self, case: Transaction, why: str, now: Moment) -> bool:
        """Go on without the agent, or where it must run, not at all; tell whether all is done with this."""
        if case.record.spec.request.agent_must_run:
            self.prepare.close(case, must_run(why), "failed", now)
        return case.record.spec.request.agent_must_run

    def _dispatch(self, case: Transaction, tour: Tour, site: str) -> None:
        record = case.record
        script = record.spec.script
        seen = self._seen.setdefault(site, {})
        dispatch = m.Dispatch(
            rid=record.rid,
            att=record.att,
            stamp=record.stamp,
            round=record.agent.rounds + 1,
            principal=record.principal,
            script=script,
            source="" if script in seen else case.agent.source,
            text=record.spec.text[:REQUEST_TEXT_MAX],
            arguments=record.spec.request.arguments,
            inbox=tour.inbox,
            starts=tour.starts,
            asks=tour.asks[site],
            near=self._stops(case, tour, site),
            meet=tour.meets(site),
            parts=self.prepare.participants(case, site),
            need=len(case.parts),
            coords=self.identity.coords,
            secret=self.credentials.secret(record, site),
            hold_ms=HOLD_MS,
            pays=record.pays(site),
        )
        self.outbox.send(site, dispatch)
        seen[script] = None
        if len(seen) > SEEN_MAX:
            del seen[next(iter(seen))]

    def _stops(self, case: Transaction, tour: Tour, way: str) -> tuple[Stop, ...]:
        """Where `way` is to pass the agent on to, with what proves there that we have sent it."""
        record = case.record
        return tuple(
            replace(
                stop,
                secret=self.credentials.visit_proof(
                    stop.site, record, way, asked_for(tour.starts, stop.asks)
                ),
            )
            for stop in tour.near_stops(way)
        )

    def resend(self, case: Transaction, part: Branch) -> None:
        """Send the agent again to a site that has not answered, if nobody is to pass it on there."""
        tour, site = case.agent.tour, part.site
        if tour is None or site in tour.reports:
            return
        way = tour.way(site)
        if way != site and not self.directory.is_up(way):
            tour.visit_directly(site)
            way = site
        if way != site and way not in tour.reports and case.resend_every_ms >= SILENT_WAY_MS:
            self._visit_each(case, tour, tour.together(way))
            return
        if way == site:
            self._dispatch(case, tour, site)

    def forget_scripts(self, site: str) -> None:
        """A new session: which scripts `site` knows is not known."""
        self._seen.pop(site, None)

    def site_back(self, case: Transaction, hello: m.Hello, now: Moment) -> bool:
        """A site that has restarted holds nothing any more, whatever it had reported."""
        tour = case.agent.tour
        report = tour.reports.get(hello.site) if tour is not None else None
        if tour is not None and report is not None and report.epoch != hello.epoch:
            hub = tour.answered_by.get(hello.site)
            if hub is None:
                del tour.reports[hello.site]
                tour.visit_directly(hello.site)
            else:
                self._visit_each(
                    case, tour, [site for site, by in tour.answered_by.items() if by == hub]
                )
        return True

    def over(self, case: Transaction, now: Moment) -> None:
        reports = case.agent.tour.reports if case.agent.tour is not None else {}
        self.prepare.ran_out(case, (site for site in case.parts if site not in reports), now)

    def reported(self, site: str, report: m.Report, now: Moment) -> None:
        """A site is believed about its own resources; those near it, about theirs, through it."""
        case = self.table.live(report.rid, report.att, ("touring",))
        if case is None or (tour := case.agent.tour) is None or site not in tour.stops:
            return
        if report.common is not None:
            self._met(case, tour, site, report.common, now)
            return
        near = tour.stops[site]
        heard = {each.site: each for each in reversed(report.sites)}
        # First the site itself: while it does not know the script, it has passed nothing on.
        for name in (site, *near):
            if name not in tour.reports and (name == site or site in tour.reports):
                self._report_of(case, tour, name, heard.get(name))
        self._perhaps_complete(case, tour, now)

    def _met(
        self, case: Transaction, tour: Tour, site: str, common: m.CommonTimes, now: Moment
    ) -> None:
        """Take the common starts of the sites of a visit, as far as each has proved its own."""
        sites = tour.together(site)
        if site in tour.reports or len(sites) == 1:
            return  # It was heard before, or all of these were asked themselves since.
        reports: list[SiteReport] = []
        if {part.site for part in common.sites} == set(sites):
            reports = self._proved(case, tour, common)
            if not reports:
                self.checks.complain(site, "answers for near sites what these have not said", now)
        if reports:
            tour.met(site, common, reports)
            self._perhaps_complete(case, tour, now)
        else:
            self._visit_each(case, tour, sites)

    def _proved(self, case: Transaction, tour: Tour, common: m.CommonTimes) -> list[SiteReport]:
        """Return the reports in `common`, or none if a site has not proved its own."""
        keys = {part.site: self.credentials.site_key(part.site) for part in common.sites}
        if not is_proved(keys, case.rid, case.record.att, common):
            return []
        reports = [
            report_in(common, number, tour.asks[part.site])
            for number, part in enumerate(common.sites)
        ]
        return [report for report in reports if report is not None] if None not in reports else []

    def _visit_each(self, case: Transaction, tour: Tour, sites: Iterable[str]) -> None:
        """Ask `sites` themselves for all that they have to say."""
        each = tuple(sites)
        tour.visit_each(each)
        for site in each:
            self._dispatch(case, tour, site)

    def _perhaps_complete(self, case: Transaction, tour: Tour, now: Moment) -> None:
        """Go on once all have reported; where common starts alone lead nowhere, hear the rest first."""
        if not tour.complete:
            return
        if tour.common and tour.choice(case.tries.excluded_starts) is None:
            self._visit_each(case, tour, tour.common)
        else:
            self.toured(case, now)

    def _report_of(
        self, case: Transaction, tour: Tour, name: str, report: SiteReport | None
    ) -> None:
        """Take what `name` says, or send the agent there (again) when that says nothing yet."""
        via = tour.way(name)
        if report is not None and report.code == "unknown-script":
            self._seen.get(name, {}).pop(case.record.spec.script, None)
            tour.unknown[name] = tour.unknown.get(name, 0) + 1
            if tour.unknown[name] <= UNKNOWN_MAX:
                if via != name:
                    tour.visit_directly(name)
                self._dispatch(case, tour, name)
                return
        if report is None or (via != name and not self._is_sealed(case, report)):
            if via != name:
                tour.visit_directly(name)
                self._dispatch(case, tour, name)
            return
        tour.reports[name] = tour.believed(report)
        self.outbox.count_run(report.code)

    def _is_sealed(self, case: Transaction, report: SiteReport) -> bool:
        """Whether a report that comes through another site is the site's own word."""
        key = self.credentials.site_key(report.site)
        return is_sealed(key, case.rid, case.record.att, report)

    def toured(self, case: Transaction, now: Moment) -> None:
        """All have reported, or the time is over: go on with what is held, or with another round."""
        tour = case.agent.tour
        if tour is None:
            return
        case.agent.tour = None
        record = case.record
        silent = no_answers(site for site in tour.asks if site not in tour.reports)
        for _ in tour.common:
            self.outbox.count_run("ok")
        self.events.add(case, tour, silent, now)
        failed = (*failed_visits(tour.reports.values()), *silent)
        record.agent = replace(
            record.agent, rounds=record.agent.rounds + 1, only=(),
            inbox=record.agent.inbox[len(tour.inbox) :], failed=tuple(each.where for each in failed),
        )  # fmt: skip
        if failed and record.spec.request.agent_must_run:
            self.prepare.close(case, must_run("has failed", failed), "failed", now)
            return
        choice = tour.choice(case.tries.excluded_starts)
        if choice is not None:
            self._chosen(case, tour, choice, now)
            return
        refusals = (
            *silent,
            *(each for of_one in tour.reports.values() for each in of_one.refusals),
        )
        self._nothing_held(case, tour, tuple(dict.fromkeys(refusals)), now)

    def _nothing_held(
        self, case: Transaction, tour: Tour, refusals: tuple[Refusal, ...], now: Moment
    ) -> None:
        """Another round, about what the agent has chosen everywhere, else about all that was offered.

        What it has left out to the end is not booked. The planner goes on where there was nothing to
        choose: it finds a start that was not on offer, or says why there is none.
        """
        record = case.record
        chosen = tour.common_starts(case.tries.excluded_starts, chosen=True)
        starts = chosen or tour.common_starts(case.tries.excluded_starts, chosen=False)
        if starts and record.agent.rounds < (TOURS_MAX if chosen else AGREE_MAX):
            record.agent = replace(record.agent, only=starts)
            detail = f"no common start is held at all sites; trying {len(starts)} next"
            self.prepare.give_up_attempt(case, detail, refusals, now)
        elif chosen:
            error = LostRace(
                f"the agent lost the race {record.agent.rounds} times",
                remedy="try again, or give a wider window",
                refusals=refusals,
            )
            self.prepare.close(case, error, "failed", now)
        elif starts:
            self.prepare.close(case, left_out(tour.reports.values()), "failed", now)
        elif record.spec.request.agent_must_run:
            self.prepare.close(case, must_run("was offered no slots", refusals), "failed", now)
        else:
            record.agent = replace(record.agent, rounds=TOURS_MAX)
            detail = "no common start for the agent; searching without it"
            self.prepare.give_up_attempt(case, detail, refusals, now)

    def _chosen(self, case: Transaction, tour: Tour, choice: Choice, now: Moment) -> None:
        """Keep the holds of one common start, as if just these had been asked for."""
        record = case.record
        parts: dict[str, Branch] = {}
        for site in tour.asks:
            report = tour.reports.get(site)
            chosen = [hold for hold in choice.holds if split_resource(hold.resource)[0] == site]
            if not chosen:
                if report is None or tour.held_at(site):
                    self.prepare.release(case, site)
                continue
            wants = tuple(Want(hold.resource, hold.start, hold.end, hold.units) for hold in chosen)
            part = Branch(site, wants, tuple(hold.hold_id for hold in chosen))
            if report is not None:
                part.approval = report.approval
                part.surplus = tuple(
                    hold_id for hold_id in tour.held_at(site) if hold_id not in part.hold_ids
                )
            parts[site] = part
        case.parts = parts
        record.wants = tuple(want for part in parts.values() for want in part.wants)
        case.tries.planned = (0, choice.common)
        self.prepare.all_held(case, now)
        if case.phase in ("held", "asking"):
            # At once: from then on no site asks for it back.
            for part in parts.values():
                self.prepare.renew(case, part)

    def leave_message(self, case: Transaction, word: ClientWord) -> None:
        """Leave `word` for the agent of `case`. Raises `LimitExceeded` when too many messages wait."""
        standing, agent = case.record, case.record.agent
        if any(word.key == each for each, _ in agent.calls):
            return
        if word.message and len(agent.inbox) >= AGENT_MESSAGES_MAX:
            raise LimitExceeded(
                f"{AGENT_MESSAGES_MAX} unread messages wait for this agent",
                where="message",
                remedy="wait until its next round has read them",
                request_id=standing.reservation,
            )
        rounds, script = agent.rounds, ""
        if word.spec is not None:
            standing.spec, script = word.spec, word.spec.script
            rounds = min(rounds, AGREE_MAX - 1)
            case.agent.source = word.source
        standing.agent = replace(
            agent, rounds=rounds, inbox=(*agent.inbox, *filter(None, [word.message])),
            calls=(*agent.calls, (word.key, word.digest))[-CALLS_KEPT_MAX:],
        )  # fmt: skip
        body = r.encode_record(standing)
        self.table.write(case, r.Note(case.rid, standing.att, body, "agent", script, word.source))
