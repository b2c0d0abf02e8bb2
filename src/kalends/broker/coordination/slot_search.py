"""Where a request may be tried: what is free, then what may come free, then the waiting lists.

Each look asks the sites anew. What is free is asked for at once. Where nothing is, but only because
others hold it, it is asked for all the same, and the request waits in line there. Where it is taken, a
request that has the patience stands on the waiting lists of all sites concerned, holds nothing, and
looks again whenever one of them says that something has come free.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Sequence, Set
from typing import Final, Literal

from msgspec.structs import replace

from kalends.broker.coordination.hearing import Asked
from kalends.broker.coordination.prepare_phase import Attempts
from kalends.broker.coordination.query_plan import Looking, batched, plans, why_not
from kalends.broker.coordination.refusal_errors import PERMANENT, error_of, site_down
from kalends.broker.coordination.transaction import Case, SitePart, by_site
from kalends.broker.planning.in_flight import fits, overlaid
from kalends.broker.planning.planner import Plan
from kalends.broker.planning.polling.polls import Poll, poll_of
from kalends.contract import messages as m
from kalends.contract.calls import Waiting
from kalends.contract.messages import Want
from kalends.core import limits
from kalends.core.errors import (
    InvalidInput,
    KalendsError,
    NoCommonTime,
    Refusal,
    RefusalCode,
    Unavailable,
)
from kalends.core.identifiers import split_resource
from kalends.core.intervals import Moment
from kalends.core.requests import Term, shortest_stage_s

LOOK_MS_MAX: Final = 5_000
UNANSWERED_MAX: Final = 4_096
"""Queries that may still be answered: what comes later teaches nothing of how long a site takes."""

Counting = Literal["all", "locked"]

SPREAD_MAX: Final = 16
"""Who has lost a race tries one of so many starts at most: all losers would meet again at the first."""


class Seeking(Attempts):
    """From the beginning of an attempt to the visit, the lists, or the no."""

    def _begin_attempt(self, case: Case, now: Moment) -> None:
        """Vote at once when the slots are known and this is the first attempt; else hold, or look."""
        record = case.record
        known = record.wants and (record.att == 1 or case.fixed or record.held_until_ms)
        if case.cancel_wanted:
            self._close(case, None, "released", now)
        elif known and not case.look_first:
            self._visit(case, record.wants, now)
        else:
            self._look(case, now)

    def _look(self, case: Case, now: Moment, counting: Counting = "all") -> None:
        """Ask the sites what is free, or (counting what is "locked" only) what may come free."""
        case.look_first = False
        self._in_flight.look_again(case.rid)
        if counting == "all":
            case.stirred = False
            case.hoped.clear()
        try:
            case.wanted = self._wanted(case, now)
        except KalendsError as error:
            self._no_way(case, error, now)
            return
        if case.phase != "looking":
            case.enter("looking")
        self._ask_around(case, counting, now)

    def _wanted(self, case: Case, now: Moment) -> dict[str, tuple[Want, ...]]:
        """What to look at, by site. Raises `Unavailable` without a site that cannot be done without."""
        if case.fixed:
            return by_site(case.record.spec.wants)
        looking = Looking.of(case.record, self.directory, case.shunned, now.wall_s)
        return looking.by_site

    def _ask_around(self, case: Case, counting: Counting, now: Moment) -> None:
        case.counting = counting
        case.contested = False
        case.free = {}
        case.refusals = []
        case.queries = {}
        self._go_on(case, lambda: self._first_asked(case, now), now)

    def _first_asked(self, case: Case, now: Moment) -> Collection[str]:
        case.poll = self._poll(case, now)
        return case.poll.first()

    def _go_on(self, case: Case, whom: Callable[[], Collection[str]], now: Moment) -> None:
        """Ask `whom`, and plan once enough have answered; a request too hard to plan is given up."""
        try:
            self._ask(case, whom(), now)
            if case.poll is not None and case.poll.over:
                self._looked(case, now)
        except InvalidInput as error:
            self._close(case, error, "failed", now)

    def _poll(self, case: Case, now: Moment, polled: int = 0) -> Poll:
        """At first as few as the model says; who has lost a race, or looks for what is held, asks all."""
        everybody = bool(case.fixed or case.rounds or case.excluded or case.counting != "all")
        return poll_of(
            case.record.spec.request,
            self.directory,
            [want.resource for wants in case.wanted.values() for want in wants],
            self.odds,
            lambda free: self._planned(case) is not None,
            now.wall_s,
            everybody=everybody,
            polled=polled,
        )

    def _ask(self, case: Case, names: Collection[str], now: Moment) -> None:
        """Query every site about those of `names` that it has, and wait for all."""
        if not names:
            return
        record = case.record
        asked = set(names)
        for site, wants in case.wanted.items():
            for part in batched(tuple(want for want in wants if want.resource in asked)):
                case.asked_after[site] = case.heard.get(site, 0)
                query_id = next(self._query_ids)
                case.queries[query_id] = Asked(site, part)
                self._queries[query_id] = case.rid
                self._unanswered[query_id] = (site, now.monotonic_ms)
                query = m.Query(
                    query_id=query_id, principal=record.principal, wants=part,
                    stamp=record.stamp, counting=case.counting, replaces=record.replaces,
                    length_s=shortest_stage_s(record.spec.request),
                )  # fmt: skip
                self._outbox.send(site, query)
        while len(self._unanswered) > UNANSWERED_MAX:
            del self._unanswered[next(iter(self._unanswered))]
        case.phase_deadline_ms = now.monotonic_ms + LOOK_MS_MAX
        self._deadlines.schedule(case)

    def _viewed(self, site: str, view: m.View, now: Moment) -> None:
        """A site is believed about what it was asked only. How long it took is learned in any case."""
        asked_of, asked_ms = self._unanswered.get(view.query_id, ("", 0))
        if asked_of == site:
            del self._unanswered[view.query_id]
            self.odds.note_delay(site, now.monotonic_ms - asked_ms)
        case = self._table.cases.get(self._queries.get(view.query_id, ""))
        asked = case.queries.get(view.query_id) if case is not None else None
        if case is None or case.phase != "looking" or asked is None or asked.site != site:
            return
        del case.queries[view.query_id], self._queries[view.query_id]
        if case.counting == "all" and all(each.site != site for each in case.queries.values()):
            case.looked_into[site] = case.asked_after[site]
        for of_one in self._hearing.view(site, view, asked, now).views:
            case.free = {**case.free, of_one.resource: of_one.steps}
            case.contested = case.contested or of_one.held
            if of_one.refusal is not None:
                case.refusals.append(of_one.refusal)
        self._look_on(case, now)

    def _look_on(self, case: Case, now: Moment, *, given_up: bool = False) -> None:
        """Ask others too, or go on; `given_up`: who is silent is not waited for any more."""
        if given_up:
            for site in sorted({asked.site for asked in case.queries.values()}):
                case.refusals.append(site_down(site, "it did not answer in time"))
                case.looked_into.pop(site, None)
                self.odds.note_delay(site, LOOK_MS_MAX)
            self._forget_queries(case)
        poll = case.poll
        if poll is not None:
            waiting_for = {asked.site for asked in case.queries.values()}
            self._go_on(case, lambda: poll.more(case.free, waiting_for), now)

    def _forget_queries(self, case: Case) -> None:
        for query_id in case.queries:
            self._queries.pop(query_id, None)
        case.queries = {}

    def _learn(self, case: Case) -> None:
        """What the answers tell of how busy sites are; what is held may come free, so only at first."""
        if case.poll is None or case.counting != "all":
            return
        refused = {refusal.where for refusal in case.refusals}
        for seen in case.poll.observations(case.free, refused):
            self.odds.note(seen.site, seen.at_s, seen.taken)

    def _looked(self, case: Case, now: Moment) -> None:
        """Ask for the best that the sites have shown; else look at what may come free; else wait."""
        self._forget_queries(case)
        self._learn(case)
        if case.counting == "all":
            case.seen = case.free
        planned = self._planned(case)
        if planned is not None:
            case.planned = planned.key
            case.record.wants = planned.wants
            case.record.alternative = planned.alternative
            self._visit(case, planned.wants, now, hopeful=case.counting == "locked")
            self._decline(case, case.offering - case.parts.keys())
            return
        patience = case.record.spec.patience
        others = case.contested or case.excluded or self._in_flight.others(case.rid, case.free)
        if case.counting == "all" and patience != "none" and others:
            case.excluded.clear()
            self._look(case, now, "locked")
            return
        refusals = self._why_not(case)
        if patience == "taken" and not any(each.code in PERMANENT for each in refusals):
            self._stand_on_lists(case, refusals, now)
        else:
            self._close(case, error_of(refusals), "failed", now)

    def _planned(self, case: Case) -> Plan | None:
        """What to ask for: the best, or after lost races one of the best, drawn by the request's id."""
        record = case.record
        free = case.free
        if case.counting == "all":
            free = self._in_flight.less_unanswered(free, case.rid)
        elif record.spec.patience == "taken":
            # What an older one of ours is about to get is as good as taken: lists are for that.
            free = self._in_flight.less_older(free, record)
        if case.fixed:
            wants = record.spec.wants
            start, end = min(want.start for want in wants), max(want.end for want in wants)
            return Plan(start, end, wants) if fits(wants, free) else None
        free = {name: steps for name, steps in free.items() if not _shuns(case, name)}
        spread = min(2**case.rounds, SPREAD_MAX) if case.counting == "all" else 1
        found = plans(
            record.spec.request, self.directory, free, count=spread, excluded=case.excluded
        )
        if not found:
            return None
        return found[zlib.crc32(f"{case.rid} {case.rounds}".encode()) % len(found)]

    def _why_not(self, case: Case) -> tuple[Refusal, ...]:
        if not case.fixed:
            request = case.record.spec.request
            refused = (*case.shunned.values(), *case.refusals)
            why = why_not(request, self.directory, case.free, refused)
            return tuple(dict.fromkeys((*case.shunned.values(), *why)))
        taken = (
            Refusal(
                where=want.resource, code=RefusalCode.BUSY, detail="taken for some of that time"
            )
            for want in case.record.spec.wants
            if not fits((want,), case.free)
        )
        return tuple(dict.fromkeys((*case.refusals, *taken)))

    # Waiting lists

    def _stand_on_lists(self, case: Case, refusals: tuple[Refusal, ...], now: Moment) -> None:
        """Hold nothing, and be told when something comes free; unless something just has."""
        if case.stirred or (case.hoped and self._may_help(case)):
            self._look(case, now)
            return
        record = case.record
        case.enter("waiting")
        case.rounds = 0
        case.refusals = list(refusals)
        case.parts = {site: SitePart(site, wants) for site, wants in case.wanted.items()}
        self._wait_for_votes(case, now)
        case.phase_deadline_ms = case.deadline_ms
        if record.waiting is None or not record.waiting.listed:
            until = (now.wall_ms + case.deadline_ms - now.monotonic_ms) // 1000
            awaited = tuple(dict.fromkeys(refusal.where for refusal in refusals))
            waiting = Waiting(since=now.wall_s, until=until, awaited=awaited, listed=True)
            self._log.add(case, "listed", f"waits for {', '.join(awaited)}", now, refusals)
            self._note_waiting(case, waiting)
        for part in case.parts.values():
            part.voted = part.site in case.listed
            if part.site in case.offering or not part.voted:
                self._send_await(case, part)
        case.listed |= case.wanted.keys()
        case.offering.clear()
        if self._may_help(case):
            names = (want.resource for wants in case.wanted.values() for want in wants)
            self._in_flight.give_way(case.rid, names)

    def _decline(self, case: Case, sites: Set[str]) -> None:
        """What these sites offer is not wanted now: it goes to the next, and is looked at later."""
        for site in sorted(sites & case.wanted.keys()):
            self._send_await(case, SitePart(site, case.wanted[site]))
        case.offering.clear()

    def _no_way(self, case: Case, error: KalendsError, now: Moment) -> None:
        """A site cannot be reached: who stands on lists waits for it, too; others hear it now."""
        if case.phase == "waiting" and isinstance(error, Unavailable):
            case.stirred = True
            return
        if case.fixed:
            case.wanted = by_site(case.record.spec.wants)
        case.unreached |= {refusal.where for refusal in error.refusals}
        patient = case.record.spec.patience == "taken" and not case.record.held_until_ms
        if isinstance(error, Unavailable) and patient and case.wanted:
            self._stand_on_lists(case, error.refusals, now)
        else:
            self._close(case, error, "failed", now)

    def _send_await(self, case: Case, part: SitePart) -> None:
        record = case.record
        request = record.spec.request
        terms = [term for alternative in request.alternatives for term in alternative.terms]
        wish = m.Await(
            rid=record.rid, att=record.att, secret=self._credentials.secret(record, part.site),
            stamp=record.stamp, principal=record.principal,
            wants=part.wants if case.fixed else _as_much(part.wants, terms),
            length_s=shortest_stage_s(request), seen=case.looked_into.get(part.site, 0),
        )  # fmt: skip
        self._outbox.send(part.site, wish)

    def _awaited(self, site: str, awaited: m.Awaited, now: Moment) -> None:
        """What has not been looked into yet is: at once when it is offered, else when all have answered."""
        case = self._table.cases.get(awaited.rid)
        if case is None:
            return
        news = awaited.news != case.looked_into.get(site)
        case.heard[site] = awaited.news
        case.stirred = case.stirred or (awaited.fresh and news)
        if awaited.offered and news:
            self._offered(case, site, awaited, now)
        part = case.parts.get(site)
        if case.phase != "waiting" or part is None or awaited.att != case.record.att:
            return
        part.voted = True
        if not awaited.offered:
            part.ahead = awaited.ahead
        self._look_if_stirred(case, now)

    def _look_if_stirred(self, case: Case, now: Moment) -> None:
        """Not before all lists have answered: what comes free after the look is told."""
        if case.stirred and all(each.voted for each in case.parts.values()):
            self._look(case, now)

    def _came_up(self, case: Case, site: str, now: Moment) -> None:
        """A site that could not be asked, or has other resources now, may have room."""
        try:
            wanted = self._wanted(case, now)
        except KalendsError:
            return
        known = {want.resource for want in case.wanted.get(site, ())}
        unreached = site in case.unreached
        case.unreached.discard(site)
        if not unreached and all(want.resource in known for want in wanted.get(site, ())):
            return
        case.stirred = True
        if case.phase == "waiting":
            self._look(case, now)

    def _offered(self, case: Case, site: str, awaited: m.Awaited, now: Moment) -> None:
        """Look, if what has come free may be what was missing; else it goes to the next at once.

        The last look, with all that has been offered since, shows at least what is free now: whatever
        comes free is offered to everybody on the list, unless somebody before takes it.
        """
        case.offering.add(site)
        case.hoped += [each for each in awaited.offered if split_resource(each.resource)[0] == site]
        if case.phase == "waiting" and self._may_help(case):
            self._look(case, now)
        elif case.phase == "looking":
            case.stirred = True
        else:
            case.looked_into[site] = awaited.news
            self._decline(case, {site})

    def _may_help(self, case: Case) -> bool:
        if any(
            want.resource not in case.seen for of_site in case.wanted.values() for want in of_site
        ):
            return True
        free = dict(case.seen)
        hoped = {each.resource for each in case.hoped}
        for want in (each for of_site in case.wanted.values() for each in of_site):
            info = self.directory.resources.get(want.resource)
            if info is not None and want.resource in hoped:
                # What was too little by itself came free before, and was not offered.
                steps = free[want.resource]
                free[want.resource] = overlaid(steps, want.start, want.end, info.capacity)
        if case.fixed:
            return fits(case.record.spec.wants, free)
        free = {name: steps for name, steps in free.items() if not _shuns(case, name)}
        return bool(plans(case.record.spec.request, self.directory, free))

    def _leave_lists(self, case: Case) -> None:
        """Best effort: a list forgets by itself who does not come back."""
        for site in sorted(case.listed):
            secret = self._credentials.secret(case.record, site)
            release = m.Release(rid=case.rid, att=case.record.att, secret=secret)
            self._outbox.send(site, release)
        case.listed.clear()

    def _too_long(self, case: Case, now: Moment) -> None:
        """What was waited for did not come free in time."""
        error = NoCommonTime(
            "it did not come free in time",
            remedy="wait longer, give a wider window, or see `kalends find`",
            refusals=self._waited_for(case) or tuple(case.refusals),
        )
        self._close(case, error, "failed", now)

    def _waited_for(self, case: Case) -> tuple[Refusal, ...]:
        return tuple(dict.fromkeys(each for part in case.parts.values() for each in part.awaits))


def _as_much(wants: tuple[Want, ...], terms: Sequence[Term]) -> tuple[Want, ...]:
    """`wants` with the least units that any of `terms` may ask for there."""
    least: dict[str, int] = {}
    for term in terms:
        least[term.resource] = min(term.units, least.get(term.resource, term.units))
    of_any = least.get("", limits.UNITS_MAX)
    return tuple(
        replace(want, units=min(of_any, least.get(want.resource, of_any))) for want in wants
    )


def _shuns(case: Case, resource: str) -> bool:
    return resource in case.shunned or split_resource(resource)[0] in case.shunned
