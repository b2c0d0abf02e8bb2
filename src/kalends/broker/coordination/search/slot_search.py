"""Search for slots to try: free ones, then those that may come free, then the waiting lists.

Each look asks the sites anew. What is free is asked for at once. Where nothing is, but only because
others hold it, it is asked for all the same, and the request waits in line there. Where it is taken, a
request that has the patience stands on waiting lists (`waiting_lists`). If a site that is needed is away or
silent, a request with any patience waits for it, and then asks again.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, Literal

from kalends.broker.coordination.deadlines import Deadlines
from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.parts import CoordinatorPart, PhaseOwner
from kalends.broker.coordination.record.refusal_errors import PERMANENT, may_answer_later
from kalends.broker.coordination.search.query_plan import QueryPlan, batched, plans, why_not
from kalends.broker.coordination.search.requests_in_flight import RequestsInFlight
from kalends.broker.coordination.search.site_waits import SiteWaits
from kalends.broker.coordination.search.waiting_lists import ListPlaces
from kalends.broker.coordination.transaction import Transaction, by_site
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.coordination.trust.answer_checks import AnswerChecks, SiteQuestion
from kalends.broker.coordination.voting.prepare_phase import PreparePhase, no_answers
from kalends.broker.planning.directory import Directory
from kalends.broker.planning.in_flight import fits
from kalends.broker.planning.needs import barred_needs
from kalends.broker.planning.planner import Plan
from kalends.broker.planning.polling.polls import Poll, poll_of
from kalends.broker.planning.polling.site_statistics import Odds
from kalends.broker.planning.price_lists import NOTHING_PRICED
from kalends.contract import messages as m
from kalends.contract.messages import Want
from kalends.core.errors import (
    InvalidInput,
    KalendsError,
    Refusal,
    RefusalCode,
    Unavailable,
)
from kalends.core.identifiers import site_of
from kalends.core.intervals import Moment
from kalends.core.refusals import error_of
from kalends.core.requests import shortest_stage_s

LOOK_MS_MAX: Final = 5_000
UNANSWERED_MAX: Final = 4_096
"""Queries that may still be answered: what comes later teaches nothing of how long a site takes."""

Counting = Literal["all", "locked"]

SPREAD_MAX: Final = 16
"""The starts among which the loser of a race chooses: all losers would meet again at the first."""


@dataclass(eq=False)
class SlotSearch:
    """From the beginning of an attempt to the visit, the waiting lists, or the no."""

    directory: Directory
    table: TransactionTable
    outbox: CoordinatorOutbox
    checks: AnswerChecks
    deadlines: Deadlines
    in_flight: RequestsInFlight
    prepare: PreparePhase
    lists: ListPlaces
    waits: SiteWaits
    new_query_id: Callable[[], int]
    odds: Odds = field(init=False, default_factory=Odds)
    """What sites are like, as looks have shown. In memory only: a new start learns anew."""
    _queries: dict[int, str] = field(init=False, default_factory=dict)
    """For each query of a look that goes on, the request."""
    _unanswered: dict[int, tuple[str, int]] = field(init=False, default_factory=dict)
    """For each query the site, and when it was asked (monotonic ms); also for looks that are over."""

    @property
    def part(self) -> CoordinatorPart:
        looking = PhaseOwner(
            ("looking",), too_late=self.given_up, over=self.over, site_back=self.site_back
        )
        waiting = PhaseOwner(
            ("waiting",), resend=self.lists.resend, over=self.waits.over,
            woken=self.lists.look_if_stirred, asked_again=self.waits.asked_again,
            site_back=self.site_back,
        )  # fmt: skip
        return CoordinatorPart(phases=(looking, waiting), ended=self.forget)

    def request_of(self, query_id: int) -> str:
        """The request that asked this, "" for none."""
        return self._queries.get(query_id, "")

    def begin(self, case: Transaction, now: Moment) -> None:
        """Vote at once when the slots are known and this is the first attempt; else hold, or look."""
        record = case.record
        again = case.fixed or record.held_until_ms or record.owners.approve
        known = record.wants and (record.att == 1 or again)
        if case.cancel_wanted:
            self.prepare.close(case, None, "released", now)
        elif known and not (
            case.tries.look_first and self.prepare.unreachable(record.wants) is None
        ):
            self._try(case, record.wants, now)
        else:
            self.look(case, now)

    def look(self, case: Transaction, now: Moment, counting: Counting = "all") -> None:
        """Ask the sites what is free, or (counting what is "locked" only) what may come free."""
        case.tries.look_first = False
        self.in_flight.look_again(case.rid)
        if counting == "all":
            self.lists.catch_up(case)
        try:
            case.look.wanted, case.look.needs = self._wanted(case, now)
        except KalendsError as error:
            self._cannot_reach(case, error, now)
            return
        if case.phase != "looking":
            case.enter("look")
        self._ask_around(case, counting, now)

    def _wanted(self, case: Transaction, now: Moment) -> QueryPlan:
        """What to look at, by site. Raises `Unavailable` without a site that cannot be done without."""
        if case.fixed:
            return QueryPlan(by_site(case.record.spec.wants))
        return QueryPlan.of(case.record, self.directory, case.tries.shunned, now.wall_s)

    def _cannot_reach(self, case: Transaction, error: KalendsError, now: Moment) -> None:
        """A site cannot be reached: a request with patience waits for it; others hear it now."""
        look = case.look
        patience = case.record.spec.patience
        if patience == "none" or not isinstance(error, Unavailable):
            self.prepare.close(case, error, "failed", now)
            return
        if case.phase == "waiting" and not case.waits_for_sites:
            self.lists.stir(case)
            self.lists.note_awaited(case, error.refusals, now)
            return
        if case.fixed:
            look.wanted = by_site(case.record.spec.wants)
        look.unreached |= {refusal.where for refusal in error.refusals}
        listable = patience == "taken" and look.wanted and not case.record.held_until_ms
        if listable and not case.waits_for_sites:
            self._wait(case, error.refusals, now)
        else:
            self.waits.wait(case, error.refusals, now)

    def site_back(self, case: Transaction, hello: m.Hello, now: Moment) -> bool:
        if case.waits_for_sites:
            self.waits.site_back(case, hello.site, now)
        else:
            self._look_there(case, hello.site, now)
        return True

    def _look_there(self, case: Transaction, site: str, now: Moment) -> None:
        """A site that could not be asked, or has other resources now, may have room."""
        try:
            wanted = self._wanted(case, now).by_site
        except KalendsError as error:
            if case.phase == "waiting" and may_answer_later(error.refusals):
                self.lists.note_awaited(case, error.refusals, now)
            return
        known = {want.resource for want in case.look.wanted.get(site, ())}
        unreached = site in case.look.unreached
        case.look.unreached.discard(site)
        if not unreached and all(want.resource in known for want in wanted.get(site, ())):
            return
        self.lists.stir(case)
        if case.phase == "waiting":
            self.look(case, now)

    def _try(
        self, case: Transaction, wants: tuple[Want, ...], now: Moment, *, hopeful: bool = False
    ) -> None:
        error = self.prepare.unreachable(wants)
        if error is None or (case.record.owners.approve and isinstance(error, Unavailable)):
            approval = any(want.resource in case.look.approval for want in wants)
            self.prepare.visit(case, wants, now, hopeful=hopeful or approval)
        else:
            self._cannot_reach(case, error, now)

    def _wait(self, case: Transaction, refusals: tuple[Refusal, ...], now: Moment) -> None:
        """Stand on the waiting lists; unless something has just come free."""
        if self.lists.has_news(case):
            self.look(case, now)
        else:
            self.lists.stand(case, refusals, now)

    def _ask_around(self, case: Transaction, counting: Counting, now: Moment) -> None:
        look = case.look
        look.counting = counting
        look.contested = False
        look.free = {}
        look.barred = {}
        look.approval = set()
        look.prices = NOTHING_PRICED
        case.tries.refusals = []
        look.queries = {}
        self._go_on(case, lambda: self._first_asked(case, now), now)

    def _first_asked(self, case: Transaction, now: Moment) -> Collection[str]:
        case.look.poll = self.poll(case, now)
        return case.look.poll.first()

    def _go_on(self, case: Transaction, whom: Callable[[], Collection[str]], now: Moment) -> None:
        """Ask `whom`, and plan once enough have answered; a request too hard to plan is given up."""
        try:
            self._ask(case, whom(), now)
            if case.look.poll is not None and case.look.poll.over:
                self._looked(case, now)
        except InvalidInput as error:
            self.prepare.close(case, error, "failed", now)

    def poll(self, case: Transaction, now: Moment, polled: int = 0) -> Poll:
        """At first as few as the model says; who has lost a race, or looks for what is held, asks all."""
        everybody = bool(
            case.fixed
            or case.record.spec.request.prefer_price
            or case.record.spec.request.at_most
            or case.tries.rounds
            or case.tries.excluded
            or case.tries.silent
            or case.look.counting != "all"
        )
        return poll_of(
            case.record.spec.request,
            self.directory,
            [want.resource for wants in case.look.wanted.values() for want in wants],
            self.odds,
            lambda free: self._planned(case, hurried=True) is not None,
            now.wall_s,
            everybody=everybody,
            polled=polled,
        )

    def _ask(self, case: Transaction, names: Collection[str], now: Moment) -> None:
        """Query every site about those of `names` that it has, and wait for all."""
        look = case.look
        if not names:
            return
        record = case.record
        asked = set(names)
        for site, wants in look.wanted.items():
            for part in batched(tuple(want for want in wants if want.resource in asked)):
                self.lists.asked(case, site)
                query_id = self.new_query_id()
                look.queries[query_id] = SiteQuestion(site, part, look.needs)
                self._queries[query_id] = case.rid
                self._unanswered[query_id] = (site, now.monotonic_ms)
                query = m.Query(
                    query_id=query_id, principal=record.principal, wants=part,
                    stamp=record.stamp, counting=look.counting, replaces=record.replaces,
                    length_s=shortest_stage_s(record.spec.request), needs=look.needs,
                )  # fmt: skip
                self.outbox.send(site, query)
        while len(self._unanswered) > UNANSWERED_MAX:
            del self._unanswered[next(iter(self._unanswered))]
        case.phase_deadline_ms = now.monotonic_ms + LOOK_MS_MAX
        self.deadlines.schedule(case)

    def viewed(self, site: str, view: m.View, now: Moment) -> None:
        """A site is trusted only about its question. How long it took is learned in any case."""
        asked_of, asked_ms = self._unanswered.get(view.query_id, ("", 0))
        if asked_of == site:
            del self._unanswered[view.query_id]
            self.odds.note_delay(site, now.monotonic_ms - asked_ms)
        case = self.table.cases.get(self._queries.get(view.query_id, ""))
        asked = case.look.queries.get(view.query_id) if case is not None else None
        if case is None or case.phase != "looking" or asked is None or asked.site != site:
            return
        look = case.look
        del look.queries[view.query_id], self._queries[view.query_id]
        if look.counting == "all" and all(each.site != site for each in look.queries.values()):
            self.lists.seen(case, site)
        answer = self.checks.view(site, view, asked, now)
        believed = answer.views
        look.prices = look.prices.added([answer])
        look.barred = {**look.barred, **barred_needs(believed, asked.needs)}
        for of_one in believed:
            look.free = {**look.free, of_one.resource: of_one.steps}
            look.contested = look.contested or of_one.held
            if of_one.approval:
                look.approval.add(of_one.resource)
            if of_one.refusal is not None:
                case.tries.refusals.append(of_one.refusal)
        self.look_on(case, now)

    def given_up(self, case: Transaction, now: Moment) -> None:
        """Wait no longer for sites that are silent."""
        silent = case.look.silent
        case.tries.refusals += no_answers(silent)
        for site in silent:
            self.lists.unseen(case, site)
            self.odds.note_delay(site, LOOK_MS_MAX)
        self.forget(case)
        self.look_on(case, now)

    def over(self, case: Transaction, now: Moment) -> None:
        self.prepare.ran_out(case, case.look.silent, now)

    def look_on(self, case: Transaction, now: Moment) -> None:
        """Ask others too, or go on."""
        look = case.look
        poll = look.poll
        if poll is not None:
            self._go_on(case, lambda: poll.more(look.free, {*look.silent}), now)

    def forget(self, case: Transaction) -> None:
        for query_id in case.look.queries:
            self._queries.pop(query_id, None)
        case.look.queries = {}

    def _learn(self, case: Transaction) -> None:
        """What the answers tell of how busy sites are; what is held may come free, so only at first."""
        look = case.look
        if look.poll is None or look.counting != "all":
            return
        refused = {refusal.where for refusal in case.tries.refusals}
        for seen in look.poll.observations(look.free, refused):
            self.odds.note(seen.site, seen.at_s, seen.taken)

    def _looked(self, case: Transaction, now: Moment) -> None:
        """Ask for the best that the sites have shown; else look at what may come free; else wait."""
        look, tries = case.look, case.tries
        self.forget(case)
        self._learn(case)
        if look.counting == "all":
            look.seen = look.free
        planned = self._planned(case)
        if planned is not None:
            tries.planned = planned.key
            case.record.wants = planned.wants
            case.record.alternative = planned.alternative
            self._try(case, planned.wants, now, hopeful=look.counting == "locked")
            self.lists.decline(case, case.lists.offering - case.parts.keys())
            return
        patience = case.record.spec.patience
        others = look.contested or tries.excluded or self.in_flight.others(case.rid, look.free)
        if look.counting == "all" and patience != "none" and others:
            tries.excluded.clear()
            self.look(case, now, "locked")
            return
        refusals = self._why_not(case)
        if patience == "taken" and not any(each.code in PERMANENT for each in refusals):
            self._wait(case, refusals, now)
        elif self.waits.may_help(case, refusals):
            # Look first next time, too: nothing is held elsewhere for a site that stays silent.
            tries.look_first = not case.record.held_until_ms
            self.waits.wait(case, refusals, now)
        else:
            self.prepare.close(case, error_of(refusals), "failed", now)

    def _planned(self, case: Transaction, *, hurried: bool = False) -> Plan | None:
        """What to ask for: the best, or after lost races one of the best, drawn by the request's id.

        Sites that did not answer when they were asked for slots are left out if that is possible; with
        `hurried`, even if it is not: others may answer yet.
        """
        look, tries = case.look, case.tries
        record = case.record
        free = look.free
        if look.counting == "all":
            free = self.in_flight.less_unanswered(free, case.rid)
        elif record.spec.patience == "taken":
            # What an older one of ours is about to get is as good as taken: lists are for that.
            free = self.in_flight.less_older(free, record)
        if case.fixed:
            wants = record.spec.wants
            start, end = min(want.start for want in wants), max(want.end for want in wants)
            return Plan(start, end, wants) if fits(wants, free) else None
        free = {name: steps for name, steps in free.items() if not tries.shuns(name)}
        spread = min(2**tries.rounds, SPREAD_MAX) if look.counting == "all" else 1
        answered = {name: free[name] for name in free if site_of(name) not in tries.silent}
        for among in (answered,) if hurried or len(answered) == len(free) else (answered, free):
            found = plans(
                record.spec.request, self.directory, among, count=spread,
                excluded=tries.excluded, prices=look.prices,
            )  # fmt: skip
            if found:
                break
        else:
            return None
        return found[zlib.crc32(f"{case.rid} {tries.rounds}".encode()) % len(found)]

    def _why_not(self, case: Transaction) -> tuple[Refusal, ...]:
        tries = case.tries
        if not case.fixed:
            request = case.record.spec.request
            refused = (*tries.shunned.values(), *tries.refusals)
            look = case.look
            why = why_not(
                request, self.directory, look.free, refused, barred=look.barred, prices=look.prices
            )
            return tuple(dict.fromkeys((*tries.shunned.values(), *why)))
        refusals = tries.refusals
        silent = {site_of(each.where) for each in refusals if each.code == RefusalCode.SITE_DOWN}
        taken = (
            Refusal(
                where=want.resource, code=RefusalCode.BUSY, detail="booked for a part of that time"
            )
            for want in case.record.spec.wants
            if site_of(want.resource) not in silent and not fits((want,), case.look.free)
        )
        return tuple(dict.fromkeys((*refusals, *taken)))
