"""Standing on waiting lists: where all is taken, a request holds nothing and hears what comes free.

It stands on the lists of all sites concerned. Whatever one of them offers that may have been missing
is looked into at once, at all sites; what it is not missing goes to the next on the list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.parts import CoordinatorPart, on
from kalends.broker.coordination.record.event_log import EventLog
from kalends.broker.coordination.search.query_plan import plans
from kalends.broker.coordination.search.requests_in_flight import RequestsInFlight
from kalends.broker.coordination.transaction import Branch, Transaction
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.coordination.trust.credentials import Credentials
from kalends.broker.coordination.voting.prepare_phase import PreparePhase
from kalends.broker.planning.directory import Directory
from kalends.broker.planning.in_flight import fits, overlaid
from kalends.broker.planning.window_wants import cut_to_windows
from kalends.contract import messages as m
from kalends.contract.costs import Pays
from kalends.contract.messages import Want
from kalends.core import limits
from kalends.core.errors import Refusal
from kalends.core.identifiers import split_resource
from kalends.core.intervals import Moment
from kalends.core.requests import Term, shortest_stage_s

DEAR_MAX: Final = 16
"""Resources that a request was passed over for, as far as its story tells: a site may name any number."""


@dataclass(eq=False)
class ListPlaces:
    """The lists on which requests stand, and the news that they have heard; `look` looks anew."""

    directory: Directory
    table: TransactionTable
    outbox: CoordinatorOutbox
    log: EventLog
    credentials: Credentials
    in_flight: RequestsInFlight
    prepare: PreparePhase
    look: Callable[[Transaction, Moment], None]

    @property
    def part(self) -> CoordinatorPart:
        return CoordinatorPart(handles=(on(m.Awaited, self.awaited),))

    # What looks have seen of the news

    def stir(self, case: Transaction) -> None:
        """Something may have come free that no look of `case` has seen."""
        case.lists.stirred = True

    def catch_up(self, case: Transaction) -> None:
        """A look at everything begins: all that was heard up to now is looked into."""
        case.lists.stirred = False
        case.lists.hoped.clear()

    def asked(self, case: Transaction, site: str) -> None:
        """The look asks `site`, after the news that were heard of it up to now."""
        case.lists.asked_after[site] = case.lists.heard.get(site, 0)

    def seen(self, case: Transaction, site: str) -> None:
        """`site` has answered the look."""
        case.lists.looked_into[site] = case.lists.asked_after[site]

    def unseen(self, case: Transaction, site: str) -> None:
        """`site` has not answered the look in time."""
        case.lists.looked_into.pop(site, None)

    def has_news(self, case: Transaction) -> bool:
        """Whether to look once more before standing on lists."""
        return case.lists.stirred or bool(case.lists.hoped and self._may_help(case))

    # Standing on them

    def stand(self, case: Transaction, refusals: tuple[Refusal, ...], now: Moment) -> None:
        """Hold nothing, and be told when something comes free."""
        look, news = case.look, case.lists
        record = case.record
        case.enter("list")
        case.tries.rounds = 0
        case.parts = {site: Branch(site, wants) for site, wants in look.wanted.items()}
        self.prepare.wait_for_votes(case, now)
        case.phase_deadline_ms = case.deadline_ms
        record.listed = True
        self.note_awaited(case, refusals, now)
        for part in case.parts.values():
            part.voted = part.site in news.listed
            if part.site in news.offering or not part.voted:
                self.resend(case, part)
        news.listed |= look.wanted.keys()
        news.offering.clear()
        if self._may_help(case):
            names = (want.resource for wants in look.wanted.values() for want in wants)
            self.in_flight.give_way(case.rid, names)

    def note_awaited(self, case: Transaction, refusals: tuple[Refusal, ...], now: Moment) -> None:
        """Write down what is missing now: `kalends show` and the error at the deadline are to say it."""
        case.tries.refusals = list(refusals)
        self.prepare.note_awaited(case, refusals, now, listed=True)

    def resend(self, case: Transaction, part: Branch) -> None:
        record = case.record
        request = record.spec.request
        terms = [term for alternative in request.alternatives for term in alternative.terms]
        wish = m.Await(
            rid=record.rid, att=record.att, secret=self.credentials.secret(record, part.site),
            stamp=record.stamp, principal=record.principal,
            wants=part.wants
            if case.fixed
            else cut_to_windows(request, _as_much(part.wants, terms)),
            length_s=shortest_stage_s(request), seen=case.lists.looked_into.get(part.site, 0),
            # What a change is paid back, its site knows when it is asked for slots.
            pays=None if record.replaces else record.pays(part.site) or Pays(),
        )  # fmt: skip
        self.outbox.send(part.site, wish)

    def awaited(self, site: str, awaited: m.Awaited, now: Moment) -> None:
        """What has not been looked into yet is: at once when it is offered, else when all have answered."""
        case = self.table.cases.get(awaited.rid)
        if case is None:
            return
        news = case.lists
        unknown = awaited.news != news.looked_into.get(site)
        news.heard[site] = awaited.news
        news.stirred = news.stirred or (awaited.fresh and unknown)
        if awaited.offered and unknown:
            self._offered(case, site, awaited, now)
        part = case.parts.get(site)
        if case.phase != "waiting" or part is None or awaited.att != case.record.att:
            return
        part.voted = True
        if not awaited.offered:
            part.ahead = awaited.ahead
        if awaited.dear is not None:
            self._too_dear(case, awaited.dear, now)
        self.look_if_stirred(case, now)

    def _too_dear(self, case: Transaction, refusal: Refusal, now: Moment) -> None:
        """Write down, once for each resource, that room went to others because of its price."""
        told, about = case.lists.dear, (refusal.where, refusal.code)
        if about in told or len(told) >= DEAR_MAX:
            return
        told.add(about)
        case.tries.refusals = [*case.tries.refusals, refusal][-limits.REFUSALS_MAX :]
        self.log.add(case, "passed-over", f"{refusal.where}: {refusal.detail}", now, (refusal,))
        self.prepare.note_waiting(case, case.record.waiting)

    def look_if_stirred(self, case: Transaction, now: Moment) -> None:
        """Not before all lists have answered: what comes free after the look is told."""
        if case.lists.stirred and all(each.voted for each in case.parts.values()):
            self.look(case, now)

    def _offered(self, case: Transaction, site: str, awaited: m.Awaited, now: Moment) -> None:
        """Look, if what has come free may be what was missing; else it goes to the next at once.

        The last look, with all that has been offered since, shows at least what is free now: whatever
        comes free is offered to everybody on the list, unless somebody before takes it.
        """
        news = case.lists
        news.offering.add(site)
        news.hoped += [each for each in awaited.offered if split_resource(each.resource)[0] == site]
        if case.phase == "waiting" and self._may_help(case):
            self.look(case, now)
        elif case.phase == "looking":
            news.stirred = True
        else:
            news.looked_into[site] = awaited.news
            self.decline(case, {site})

    def decline(self, case: Transaction, sites: Set[str]) -> None:
        """Decline the offers of these sites, which go to the next request, and look again later."""
        for site in sorted(sites & case.look.wanted.keys()):
            self.resend(case, Branch(site, case.look.wanted[site]))
        case.lists.offering.clear()

    def _may_help(self, case: Transaction) -> bool:
        look = case.look
        if any(
            want.resource not in look.seen for of_site in look.wanted.values() for want in of_site
        ):
            return True
        free = dict(look.seen)
        hoped = {each.resource for each in case.lists.hoped}
        for want in (each for of_site in look.wanted.values() for each in of_site):
            info = self.directory.resources.get(want.resource)
            if info is not None and want.resource in hoped:
                # What was too little by itself came free before, and was not offered.
                steps = free[want.resource]
                free[want.resource] = overlaid(steps, want.start, want.end, info.capacity)
        if case.fixed:
            return fits(case.record.spec.wants, free)
        free = {name: steps for name, steps in free.items() if not case.tries.shuns(name)}
        return bool(plans(case.record.spec.request, self.directory, free))

    def leave(self, case: Transaction, *, but: Set[str] = frozenset()) -> None:
        """Best effort: a list forgets by itself who does not come back. `but` these have heard already."""
        for site in sorted(case.lists.listed - but):
            self.prepare.release(case, site)
        case.lists.listed.clear()


def _as_much(wants: tuple[Want, ...], terms: Sequence[Term]) -> tuple[Want, ...]:
    """`wants` with the least units that any of `terms` may ask for there."""
    least: dict[str, int] = {}
    for term in terms:
        least[term.resource] = min(term.units, least.get(term.resource, term.units))
    of_any = least.get("", limits.UNITS_MAX)
    return tuple(
        replace(want, units=min(of_any, least.get(want.resource, of_any))) for want in wants
    )
