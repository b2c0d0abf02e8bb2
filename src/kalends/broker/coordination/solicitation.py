"""Bids for jobs: sites hold places in their queues, and the best one is asked to promise its place.

An attempt asks some sites, compares what they offer, and prepares at the winner: from there on it is phase
one of two-phase commit with one part. The second best keeps its place until the winner has voted; all others
are released at once, so that who stands behind them moves up. The next attempt begins with the second best,
and asks others only when that has nothing either. Weissman and Grimshaw 1996, section 4: `get_best`, `go` and
`no_go`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kalends.broker.coordination.credentials import Credentials
from kalends.broker.coordination.deadlines import Deadlines
from kalends.broker.coordination.event_log import EventLog
from kalends.broker.coordination.hearing import Hearing, bad_answer, complaint_about_places
from kalends.broker.coordination.identity import Identity
from kalends.broker.coordination.negotiation import ROUNDS_MAX
from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.prepare_phase import PreparePhase
from kalends.broker.coordination.refusal_errors import PERMANENT, site_down
from kalends.broker.coordination.transaction import BidRound, Branch, Transaction
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.federation.breadth import sites_to_ask
from kalends.broker.federation.draws import draw_of
from kalends.broker.federation.experience import Experience
from kalends.broker.federation.offered_places import OfferedPlace, best_first
from kalends.broker.federation.patience import enough_at_ms
from kalends.broker.federation.site_choice import Bidder, whom_to_ask
from kalends.broker.planning.directory import Directory
from kalends.contract import messages as m
from kalends.contract.calls import PlacedJob
from kalends.contract.messages import Want
from kalends.core.attributes import described, matches
from kalends.core.durations import format_duration
from kalends.core.errors import KalendsError, NotFound, Refusal, RefusalCode
from kalends.core.identifiers import queue_of, split_resource
from kalends.core.intervals import Moment
from kalends.core.jobs import JobRequest
from kalends.core.limits import SOLICITED_MACHINES_MAX
from kalends.core.refusals import error_of
from kalends.core.requests import Term
from kalends.core.resources import ResourceInfo
from kalends.core.times import format_time

BID_MS_MAX: Final = 1_000
"""So long bids are waited for, where a broker's operator says nothing else."""

TOLD_MAX: Final = 8
"""Offers that are named in the story of a request."""

DECISION_MS: Final = 9_000
"""A place is held for so long after bids were waited for: for the winner's vote, and a new attempt."""


@dataclass(eq=False)
class Solicitation:
    """From the question to the sites until one of them is asked to promise."""

    identity: Identity
    directory: Directory
    table: TransactionTable
    outbox: CoordinatorOutbox
    log: EventLog
    credentials: Credentials
    deadlines: Deadlines
    hearing: Hearing
    prepare: PreparePhase
    jitter: Callable[[], float]
    bid_ms_max: int
    experience: Experience = field(init=False, default_factory=Experience)
    """What sites are like, as bids have shown. In memory only: a new start learns anew."""

    def solicit(self, case: Transaction, job: JobRequest, now: Moment) -> None:
        """Ask sites for places: the second best of the attempt before, else those that seem best."""
        if case.cancel_wanted:
            self.prepare.close(case, None, "released", now)
            return
        # A site that is away may come back at any moment; the broker itself may have started just now.
        fitting = self._fitting(case)
        reserve = case.bidding.reserve
        if reserve not in fitting:
            self.release_reserve(case)
        asked = [reserve] if reserve in fitting else self._whom_to_ask(case, fitting, now)
        machines = {site: fitting[site] for site in asked}
        case.bidding = BidRound(now.monotonic_ms, machines)
        case.record.placed = None
        case.record.wants = ()
        if not asked and not self._absent(case):
            self.prepare.close(case, self._nobody(case), "failed", now)
            return
        case.enter("solicit")
        case.parts = {site: Branch(site, ()) for site in asked}
        case.phase_deadline_ms = now.monotonic_ms + self.bid_ms_max
        self.deadlines.schedule(case)
        for part in case.parts.values():
            self.experience.asked(part.site, now)
            self._send(case, job, part.site)

    def site_back(self, case: Transaction, now: Moment) -> None:
        """A site is connected: a job for which there was nobody to ask tries again."""
        job = case.record.spec.job
        if job is not None and case.phase == "bidding" and not case.bidding.machines:
            self.solicit(case, job, now)

    def resend(self, case: Transaction, part: Branch) -> None:
        """Ask a site again that has not answered: it is connected again."""
        job = case.record.spec.job
        if job is not None and part.site not in case.bidding.bids:
            self._send(case, job, part.site)

    def _send(self, case: Transaction, job: JobRequest, site: str) -> None:
        record = case.record
        solicit = m.Solicit(
            rid=record.rid,
            att=record.att,
            stamp=record.stamp,
            principal=record.principal,
            job=job,
            machines=case.bidding.machines[site],
            coords=self.identity.coords,
            secret=self.credentials.secret(record, site),
            hold_ms=DECISION_MS + self.bid_ms_max,
        )
        self.outbox.send(site, solicit)

    # Bids

    def heard(self, site: str, bid: m.Bid, now: Moment) -> None:
        case = self.table.cases.get(bid.rid)
        if case is None or case.record.att != bid.att or site not in case.bidding.machines:
            return  # Who was not asked is told nothing.
        if case.phase != "bidding" or site not in case.parts:
            self._learn(case, site, bid, now)
            if site not in case.parts and site != case.bidding.reserve:
                self._release(case, site)  # It has come too late.
            return
        job = case.record.spec.job
        assert job is not None
        machines = case.bidding.machines[site]
        if complaint := complaint_about_places(bid.offers, machines, job, now.wall_s):
            self.hearing.complain(site, complaint, now)
            bid = m.Bid(rid=bid.rid, att=bid.att, epoch=bid.epoch, refusals=(bad_answer(site),))
        case.bidding.bids[site] = bid
        self._learn(case, site, bid, now)
        self._go_on(case, now)

    def _go_on(self, case: Transaction, now: Moment) -> None:
        """Decide once enough have answered, or see when that will be; all, where nobody else fits."""
        bidding = case.bidding
        silent = [site for site in case.parts if site not in bidding.bids]
        enough_ms: float = self.bid_ms_max
        if len(case.parts) < len(self._fitting(case)):
            usual_ms = self.experience.usual_answer_ms(silent)
            enough_ms = enough_at_ms(len(bidding.bids), len(case.parts), usual_ms, self.bid_ms_max)
        case.phase_deadline_ms = bidding.asked_ms + math.ceil(enough_ms)
        if not silent or case.phase_deadline_ms <= now.monotonic_ms:
            self.decide(case, now)
        else:
            self.deadlines.schedule(case)

    def _learn(self, case: Transaction, site: str, bid: m.Bid, now: Moment) -> None:
        """Note how soon the site has answered, and how long a job would wait there."""
        delay_ms = now.monotonic_ms - case.bidding.asked_ms
        if bid.offers:
            first_s = min(each.start_by or each.late_start for each in bid.offers)
            self.experience.bid(site, delay_ms, max(first_s - now.wall_s, 0), now)
        elif any(each.code == RefusalCode.DRAINED for each in bid.refusals):
            # Of the whole site: what is said of one job, or one user, says nothing of the next.
            self.experience.refused(site, delay_ms, None, self.jitter(), now)

    def decide(self, case: Transaction, now: Moment) -> None:
        """Ask the best to promise; without an offer the attempt is over."""
        asked, bids = list(case.parts), case.bidding.bids
        silent = [site for site in asked if site not in bids]
        if now.monotonic_ms >= case.bidding.asked_ms + self.bid_ms_max:
            # Who was released before does not answer, and is not to blame.
            for site in silent:
                self.experience.silent(site, self.jitter(), now)
        refusals = (
            *(() if asked else self._lacks(case)),
            *(site_down(site, "the site did not bid in time") for site in silent),
            *(each for bid in bids.values() for each in bid.refusals),
            *too_late(bids, case.record.spec.request.not_after),
        )
        ranked = ranked_places(case.rid, bids, case.record.spec.request.not_after)
        if not ranked:
            self._nothing_offered(case, refusals, now)
            return
        winner = ranked[0].site
        case.bidding.reserve = next((each.site for each in ranked if each.site != winner), "")
        for site in asked:
            if site not in (winner, case.bidding.reserve):
                self._release(case, site)
        best = next(each for each in bids[winner].offers if each.machine == ranked[0].resource)
        want = Want(queue_of(best.machine), best.start, best.end, 1)
        case.parts = {winner: Branch(winner, (want,), (best.hold_id,))}
        case.record.wants = (want,)
        case.record.placed = PlacedJob(
            machine=best.machine,
            number=best.job,
            start_by=best.start_by,
            late_start=best.late_start,
        )
        self.log.add(case, "bids", _told(ranked, len(asked)), now, refusals)
        self.prepare.prepare(case, now)

    def _nothing_offered(
        self, case: Transaction, refusals: tuple[Refusal, ...], now: Moment
    ) -> None:
        tries = case.tries
        for each in refusals:
            if each.code in PERMANENT:
                tries.shunned[each.where] = each
        tries.rounds += 1
        if tries.rounds >= ROUNDS_MAX or not (self._fitting(case) or self._absent(case)):
            why = tuple(dict.fromkeys((*tries.shunned.values(), *refusals)))
            self.prepare.close(case, error_of(why), "failed", now)
        else:
            self.prepare.give_up_attempt(case, "no site has offered a place", refusals, now)

    # Releases

    def release_reserve(self, case: Transaction) -> None:
        """The winner has voted, or nothing comes of the job: the second best place is free."""
        site, case.bidding.reserve = case.bidding.reserve, ""
        if site:
            self._release(case, site)

    def _release(self, case: Transaction, site: str) -> None:
        record = case.record
        secret = self.credentials.secret(record, site)
        self.outbox.send(site, m.Release(rid=record.rid, att=record.att, secret=secret))

    # Whom to ask

    def _fitting(self, case: Transaction) -> Mapping[str, tuple[str, ...]]:
        """Return the machines that could run the job, by what is known of them, for each site."""
        fitting: dict[str, list[str]] = {}
        for info in self._wanted(case):
            site = split_resource(info.name)[0]
            if self._why_not(case, info) is None and not case.tries.shuns(info.name):
                fitting.setdefault(site, []).append(info.name)
        return {site: tuple(names[:SOLICITED_MACHINES_MAX]) for site, names in fitting.items()}

    def _wanted(self, case: Transaction) -> list[ResourceInfo]:
        """Return the machines that have the attributes that are asked for, in order of name."""
        attributes = _term_of(case).attributes
        return [
            info
            for _, info in sorted(self.directory.resources.items())
            if info.queue and matches(described(info), attributes)
        ]

    def _why_not(self, case: Transaction, info: ResourceInfo) -> Refusal | None:
        site = split_resource(info.name)[0]
        units = _term_of(case).units
        if info.capacity < units:
            detail = f"{units} nodes, of which it has {info.capacity}"
            return Refusal(where=info.name, code=RefusalCode.TOO_MUCH, detail=detail)
        return None if self.directory.is_up(site) else self._away(site)

    def _away(self, site: str) -> Refusal:
        return site_down(site, self.directory.sites[site].detail or "not connected")

    def _absent(self, case: Transaction) -> list[Refusal]:
        """Return a refusal for each site that is away, and may run the job once it is back.

        Of a site that was not there since this broker has started nothing is known.
        """
        unseen = [self._away(name) for name, site in self.directory.sites.items() if not site.epoch]
        fitting = (info for info in self._wanted(case) if not case.tries.shuns(info.name))
        lacks = [self._why_not(case, info) for info in fitting]
        return [*unseen, *(each for each in lacks if each and each.code == RefusalCode.SITE_DOWN)]

    def _lacks(self, case: Transaction) -> tuple[Refusal, ...]:
        """Return why nobody can be asked: what each machine lacks, and which sites are away."""
        lacks = (self._why_not(case, info) for info in self._wanted(case))
        return (*(each for each in lacks if each is not None), *self._absent(case))

    def _nobody(self, case: Transaction) -> KalendsError:
        if refusals := (*case.tries.shunned.values(), *self._lacks(case)):
            return error_of(refusals)
        return NotFound(
            "this broker knows no machine like that which takes jobs",
            where="job",
            remedy="see `kalends resources` for what there is, or name a machine to submit to",
        )

    def _whom_to_ask(
        self, case: Transaction, fitting: Mapping[str, tuple[str, ...]], now: Moment
    ) -> list[str]:
        bidders = [Bidder(site, machines) for site, machines in fitting.items()]
        duration_s = case.record.spec.request.duration_s
        count = sites_to_ask(_term_of(case).units, duration_s, len(bidders))
        draw = draw_of(case.rid, case.record.att)
        asked = [each.site for each in whom_to_ask(bidders, count, self.experience, draw, now)]
        # Where all rest after failures, a user is not told so without a try.
        return asked or sorted(fitting, key=self.experience.active_at_ms)[:1]


def ranked_places(rid: str, bids: Mapping[str, m.Bid], end_by: int) -> list[OfferedPlace]:
    """Return all places that are offered and end by `end_by` (0: whenever), the best first."""
    return best_first((each for each in _offered(bids) if not end_by or _end(each) <= end_by), rid)


def too_late(bids: Mapping[str, m.Bid], end_by: int) -> list[Refusal]:
    """Return a refusal for each place where the job would end after `end_by` (0: none is too late)."""
    return [
        Refusal(
            where=each.resource,
            code=RefusalCode.TOO_LATE,
            detail=f"it would end by {format_time(int(_end(each)), 'UTC')}",
        )
        for each in _offered(bids)
        if end_by and _end(each) > end_by
    ]


def _offered(bids: Mapping[str, m.Bid]) -> list[OfferedPlace]:
    return [
        OfferedPlace(
            site, each.machine, each.nodes, each.start_by, each.start, each.late_start,
            each.end - each.start, bool(each.start_by),
        )
        for site, bid in bids.items()
        for each in bid.offers
    ]  # fmt: skip


def _end(place: OfferedPlace) -> float:
    return place.counted_start + place.runs_s


def _term_of(case: Transaction) -> Term:
    """Return what the job asks a machine for."""
    return case.record.spec.request.alternatives[0].terms[0]


def _told(ranked: Sequence[OfferedPlace], asked: int) -> str:
    """Return all offers in words, for the story of the request."""
    best, first = ranked[0], _end(ranked[0])
    start = format_time(int(best.counted_start), "UTC")
    firm = "starts by" if best.firm else "is likely to start by"
    sites = len({each.site for each in ranked})
    told = f"{best.resource} {firm} {start}; {sites} of {asked} sites have bid"
    others = [
        f"{each.resource} ends {format_duration(int(_end(each) - first))} later"
        if _end(each) > first
        else f"{each.resource} ends as early"
        for each in ranked[1:TOLD_MAX]
    ]
    return "; ".join((told, *others))
