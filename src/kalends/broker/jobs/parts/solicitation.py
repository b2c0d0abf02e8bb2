"""Bids for jobs: sites hold places in their queues, and the best one is asked to promise its place.

An attempt asks some sites, compares what they offer, and prepares at the winner: from there on it is phase
one of two-phase commit with one part. The second best keeps its place until the winner has voted; all others
are released at once, so that who stands behind them moves up. The next attempt begins with the second best,
and asks others only when that has nothing either. Weissman and Grimshaw 1996, section 4: `get_best`, `go` and
`no_go`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec.structs import replace

from kalends.agents.runs import RunOutcome
from kalends.broker.coordination.parts import CoordinatorPart, PhaseOwner, on
from kalends.broker.coordination.record.refusal_errors import PERMANENT, site_down
from kalends.broker.coordination.transaction import Branch, Transaction
from kalends.broker.coordination.trust.answer_checks import bad_answer, complaint_about_places
from kalends.broker.coordination.voting.negotiation import ROUNDS_MAX
from kalends.broker.coordination.wings import Ground
from kalends.broker.jobs.parts.bid_order import (
    Within,
    counted_from,
    placed_job,
    ranked_places,
    told,
    too_late,
    what_won,
)
from kalends.broker.jobs.parts.bid_round import BidRound
from kalends.broker.jobs.parts.candidates import Candidates, Fitting
from kalends.broker.jobs.parts.places_elsewhere import latest_start, placement_of
from kalends.broker.jobs.parts.site_managers import Referral, SiteManagers
from kalends.broker.jobs.parts.user_pick import (
    PICK_MS_MAX,
    UserPick,
    followed,
    pick_run,
)
from kalends.contract import messages as m
from kalends.contract.messages import Want
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.identifiers import queue_of, split_resource
from kalends.core.intervals import Moment
from kalends.core.refusals import error_of
from kalends.core.transport import Rates
from kalends.federation.bid_tally import BidTally
from kalends.federation.experience import Experience
from kalends.federation.learned_runs import LearnedShare
from kalends.federation.offered_places import OfferedPlace, told_wait_s
from kalends.federation.patience import enough_at_ms

_OF_THE_SITE: Final = frozenset({RefusalCode.DRAINED, RefusalCode.SITE_DOWN})
"""Refusals of all jobs of all users."""

BID_MS_MAX: Final = 1_000
"""So long bids are waited for, where a broker's operator says nothing else."""

REDUNDANT_PLACES: Final = 2
"""How many places a job holds that wants more than one, if as many sites bid."""

REFERRED_PART: Final = 2
"""One in so many parts of that time managers of virtual sites are waited for at most."""

LATER_ATTEMPT: Final = "it knows of a later attempt"

DECISION_MS: Final = 9_000
"""A place is held for so long after bids were waited for: for the winner's vote, and a new attempt."""


@dataclass(eq=False)
class Solicitation:
    """From the question to the sites until one of them is asked to promise."""

    ground: Ground
    bid_ms_max: int
    rates: Rates = field(default_factory=Rates)
    candidates: Candidates = field(init=False)
    managers: SiteManagers = field(init=False)
    tally: BidTally = field(init=False, default_factory=BidTally)
    rounds: dict[str, BidRound] = field(init=False, default_factory=dict)
    """By request."""

    def __post_init__(self) -> None:
        self.candidates = Candidates(self.ground.directory, self.rates)
        self.managers = SiteManagers(self.ground, self.experience, self.referred)

    @property
    def part(self) -> CoordinatorPart:
        bidding = PhaseOwner(
            ("bidding",), resend=self.resend, too_late=self.time_is_up, over=self.over,
            asked_again=self.asked_again, site_back=self.site_back, stale=self.without,
        )  # fmt: skip
        return CoordinatorPart(
            handles=(on(m.Bid, self.heard),), phases=(bidding,), begins=self.begins,
            greeted=lambda site: self.experience.back(site), committed=self.placed,
            closed=lambda case, now: self.release_reserve(case),
            ended=lambda case: self.rounds.pop(case.rid, None),
        )  # fmt: skip

    def begins(self, case: Transaction, now: Moment) -> bool:
        """Ask for bids for a job."""
        if case.record.spec.placement is None:
            return False
        self.solicit(case, now)
        return True

    @property
    def experience(self) -> Experience:
        """Experience with sites, from their bids."""
        return self.candidates.experience

    def solicit(self, case: Transaction, now: Moment) -> None:
        """Ask sites for places: the second best of the attempt before, else those that seem best."""
        if case.cancel_wanted:
            self.ground.prepare.close(case, None, "released", now)
            return
        # A site that is away may come back at any moment; the broker itself may have started just now.
        fitting = self.candidates.fitting(case)
        reserve = self.rounds.setdefault(case.rid, BidRound()).reserve
        if reserve not in fitting:
            self.release_reserve(case)
        bidders = self.candidates.bidders(case, fitting)
        asked = [reserve] if reserve in fitting else self.candidates.to_ask(case, bidders, now)
        self.rounds[case.rid] = BidRound(now.monotonic_ms, fitting=len(fitting))
        case.record.job = replace(case.record.job, placed=None)
        case.record.wants = ()
        if not asked and not self.candidates.absent(case):
            self.ground.prepare.close(case, self.candidates.nobody(case), "failed", now)
            return
        case.enter("solicit")
        case.parts = {}
        if reserve not in fitting:
            homes = self.candidates.homes(case, bidders, now)
            choices = self.rounds[case.rid].choices
            asked = self.managers.refer(case, choices, asked, homes, bidders, now)
        self._ask(case, asked, fitting, now)
        self._set_deadline(case, self.bid_ms_max)

    def _ask(
        self,
        case: Transaction,
        sites: Sequence[str],
        fitting: Fitting,
        now: Moment,
    ) -> None:
        """Ask `sites` as well, if they fit."""
        bidding = self.rounds[case.rid]
        for site in sites:
            if site in bidding.machines or site not in fitting:
                continue
            bidding.machines[site] = fitting[site]
            bidding.jobs |= self.candidates.jobs_on(case, fitting[site])
            bidding.ways |= {each: self.candidates.ways_on(case, each) for each in fitting[site]}
            bidding.asked_at_ms[site] = now.monotonic_ms
            case.parts[site] = Branch(site, ())
            self.experience.asked(site, now)
            self.tally.of(site).asked += 1
            self._send(case, site)

    def _set_deadline(self, case: Transaction, after_ms: float) -> None:
        """Look again `after_ms` from the first question; sooner while managers are waited for."""
        bidding = self.rounds[case.rid]
        if bidding.choices:
            after_ms = min(after_ms, self.bid_ms_max // REFERRED_PART)
        case.phase_deadline_ms = bidding.asked_ms + math.ceil(after_ms)
        self.ground.deadlines.schedule(case)

    def referred(self, referral: Referral, ways: Sequence[str] | None, now: Moment) -> None:
        """A manager has answered, or cannot be reached (None); of an attempt that is over, nothing comes."""
        case = self.ground.table.cases.get(referral.question.rid)
        if case is not None and case.phase == "bidding":
            choices = self.rounds[case.rid].choices
            sites = self.managers.answered(case, choices, referral, ways, now)
            self._ask_and_go_on(case, sites, now)

    def time_is_up(self, case: Transaction, now: Moment) -> None:
        """Managers that are silent are waited for no longer; or bids are not."""
        if choices := self.rounds[case.rid].choices:
            self._ask_and_go_on(case, self.managers.given_up(choices, now), now)
        else:
            self.decide(case, now)

    def _ask_and_go_on(self, case: Transaction, sites: Sequence[str], now: Moment) -> None:
        self._ask(case, sites, self.candidates.fitting(case), now)
        self._go_on(case, now)

    def site_back(self, case: Transaction, hello: m.Hello, now: Moment) -> bool:
        """A site is connected: a job for which there was nobody to ask tries again."""
        bidding = self.rounds[case.rid]
        if case.parts.keys() - bidding.unready.keys():
            return True
        if not bidding.choices:
            self.begins(case, now)
        return False

    def asked_again(self, case: Transaction, now: Moment) -> bool:
        """Ask the sites again that were not ready, or silent."""
        bidding = self.rounds[case.rid]
        for site in (*bidding.unready, *bidding.silent):
            bidding.asked_at_ms[site] = now.monotonic_ms
            self._send(case, site)
        return True

    def over(self, case: Transaction, now: Moment) -> None:
        bidding = self.rounds[case.rid]
        if bidding.unready:
            why = error_of(each for refusals in bidding.unready.values() for each in refusals)
            self.ground.prepare.close(case, why, "failed", now)
        else:
            self.ground.prepare.ran_out(case, bidding.silent, now)

    def resend(self, case: Transaction, part: Branch) -> None:
        """Ask a site again that has not answered: it is connected again."""
        if part.site not in self.rounds[case.rid].bids:
            self._send(case, part.site)

    def _send(self, case: Transaction, site: str) -> None:
        secret = self.ground.credentials.secret(case.record, site)
        coords = self.ground.identity.coords
        question = self.rounds[case.rid].question(
            case.record, site, secret=secret, coords=coords, hold_ms=self._hold_ms
        )
        self.ground.outbox.send(site, question)

    @property
    def _hold_ms(self) -> int:
        return DECISION_MS + self.bid_ms_max

    # Bids

    def heard(self, site: str, bid: m.Bid, now: Moment) -> None:
        case = self.ground.table.cases.get(bid.rid)
        bidding = self.rounds.get(bid.rid)
        if case is None or bidding is None or case.record.att != bid.att:
            return
        if site not in bidding.machines:
            return
        if case.phase != "bidding" or site not in case.parts:
            self.tally.of(site).late += 1
            self._learn(case, site, bid, now)
            if site not in case.parts and site != bidding.reserve:
                self.ground.prepare.release(case, site)  # It has come too late.
            return
        if site in bidding.bids:
            return  # Its first word stands.
        if not bid.offers and {each.code for each in bid.refusals} == {RefusalCode.SITE_DOWN}:
            if site not in bidding.unready:
                self.tally.of(site).note_refusals({RefusalCode.SITE_DOWN})
            bidding.unready[site] = bid.refusals
            self._learn(case, site, bid, now)
            self._go_on(case, now)
            return
        bidding.unready.pop(site, None)
        jobs = bidding.jobs_of(case.record, site, bid)
        there_s = self.ground.directory.wall_s_at(site, now)
        if complaint := complaint_about_places(bid.offers, jobs, there_s):
            self.ground.checks.complain(site, complaint, now)
            bid = m.Bid(rid=bid.rid, att=bid.att, epoch=bid.epoch, refusals=(bad_answer(site),))
        elif bid.offers:
            bidding.jobs |= jobs
        asked_ms = now.wall_ms - (now.monotonic_ms - bidding.asked_at_ms[site])
        bidding.bids[site] = bid = counted_from(bid, asked_ms // 1_000, self._hold_ms)
        counts = self.tally.of(site)
        if bid.offers:
            counts.bid += 1
        else:
            counts.note_refusals({each.code for each in bid.refusals})
        self._learn(case, site, bid, now)
        self._go_on(case, now)

    def without(self, case: Transaction, sites: Collection[str], now: Moment) -> None:
        """These sites do not bid in this attempt: they say that it is over, and it is not."""
        for site in sites:
            if site in case.parts and site not in self.rounds[case.rid].bids:
                no = (Refusal(where=site, code=RefusalCode.HELD, detail=LATER_ATTEMPT),)
                self.heard(
                    site, m.Bid(rid=case.rid, att=case.record.att, epoch=0, refusals=no), now
                )

    def _go_on(self, case: Transaction, now: Moment) -> None:
        """Decide once enough have answered, or see when that will be; all, where nobody else fits."""
        bidding = self.rounds[case.rid]
        if bidding.pick is not None:
            return  # It is being decided.
        silent = bidding.silent
        enough_ms: float = self.bid_ms_max
        if len(case.parts) < bidding.fitting:
            usual_ms = self.experience.usual_answer_ms(silent)
            answered = len(case.parts) - len(silent)
            enough_ms = enough_at_ms(answered, len(case.parts), usual_ms, self.bid_ms_max)
        self._set_deadline(case, enough_ms)
        over = not silent or case.phase_deadline_ms <= now.monotonic_ms
        if over and not bidding.choices:
            self.decide(case, now)

    def _learn(self, case: Transaction, site: str, bid: m.Bid, now: Moment) -> None:
        """Note how soon the site has answered, and how long a job would wait there."""
        delay_ms = now.monotonic_ms - self.rounds[case.rid].asked_at_ms[site]
        if bid.offers:
            wait_s = told_wait_s(bid.first_start, self._hold_ms, now.wall_s)
            self.experience.bid(site, delay_ms, wait_s, now)
        elif any(each.code in _OF_THE_SITE for each in bid.refusals):
            # What is said of one job, or one user, says nothing of the next.
            there_s = self.ground.directory.wall_s_at(site, now)
            closed_s = bid.closed_until and bid.closed_until - there_s
            self.experience.refused(site, delay_ms, now, closed_s)

    def decide(self, case: Transaction, now: Moment) -> None:
        """Ask the best to promise; without an offer the attempt is over."""
        bidding = self.rounds[case.rid]
        asked, bids = list(case.parts), bidding.bids
        latest = latest_start(placement_of(case.record), now)
        within = Within(case.record.spec.request.not_after, latest)
        silent = bidding.silent
        if bidding.pick is None and now.monotonic_ms >= bidding.asked_ms + self.bid_ms_max:
            # Who was released before does not answer, and is not to blame.
            for site in silent:
                self.experience.silent(site, self.ground.jitter(), now)
                self.tally.of(site).silent += 1
        refusals = (
            *(() if asked else self.candidates.lacks(case)),
            *(site_down(site, "the site did not bid in time") for site in silent),
            *(each for said in bidding.unready.values() for each in said),
            *(each for bid in bids.values() for each in bid.refusals),
            *too_late(bids, within),
        )
        ranked = ranked_places(
            case.rid, bids, within, partial(self.candidates.preference_s, case),
            lambda machine: self._learned(case, machine).share,
            partial(self.candidates.transport_s, case),
        )  # fmt: skip
        if not ranked:
            self._nothing_offered(case, refusals, now)
            return
        if self._asks_script(case, ranked, now):
            return
        ranked, said = followed(bidding.pick, ranked)
        self._choose(case, ranked)
        learned = partial(self._learned, case)
        words = told(ranked, len(asked), bidding.jobs, learned, self._through)
        self.ground.log.add(case, "bids", f"{said}{words}", now, refusals)
        self.ground.prepare.prepare(case, now)

    def _through(self, site: str) -> tuple[str, ...]:
        return self.ground.directory.sites[site].through

    def _learned(self, case: Transaction, machine: str) -> LearnedShare:
        job = self.rounds[case.rid].jobs[machine]
        return self.candidates.learned_share(case, machine, job.implementation)

    def _choose(self, case: Transaction, ranked: Sequence[OfferedPlace]) -> None:
        """Take the best place, or the best at two sites; all but the next best are released."""
        bidding = self.rounds[case.rid]
        bids = bidding.bids
        best = {each.site: each.resource for each in reversed(ranked)}
        sites = list(dict.fromkeys(each.site for each in ranked))
        redundant = placement_of(case.record).redundant
        winners = sites[: REDUNDANT_PLACES if redundant else 1]
        # The next attempt of a redundant job begins anew: it wants more than one place again.
        bidding.reserve = next(iter(sites[1:]), "") if not redundant else ""
        for site in case.parts:
            if site not in (*winners, bidding.reserve):
                self.ground.prepare.release(case, site, won=what_won(ranked, bids, site))
        bidding.reserve_lost = what_won(ranked, bids, bidding.reserve)
        case.parts, placed = {}, []
        for site in winners:
            offer = next(each for each in bids[site].offers if each.machine == best[site])
            wants = (Want(queue_of(offer.machine), offer.start, offer.end, 1),)
            case.parts[site] = Branch(site, wants, (offer.hold_id,))
            self.tally.of(site).chosen += 1
            placed.append(placed_job(offer, bidding.jobs[offer.machine].implementation))
        case.record.wants = tuple(want for part in case.parts.values() for want in part.wants)
        place = replace(placed[0], also=tuple(placed[1:]))
        case.record.job = replace(case.record.job, placed=place)

    def _asks_script(self, case: Transaction, ranked: Sequence[OfferedPlace], now: Moment) -> bool:
        """Have the user's script order the offers, if there is one; False where it was asked before."""
        place, bidding = placement_of(case.record), self.rounds[case.rid]
        if not place.pick or bidding.pick is not None or len(ranked) < 2:
            return False
        bidding.pick = UserPick(now.monotonic_ms)
        run = pick_run(case.record.user, place.pick, ranked, bidding.jobs, self._through)
        self.ground.outbox.ask(run, partial(self.picked, case.rid, case.record.att))
        case.phase_deadline_ms = now.monotonic_ms + PICK_MS_MAX
        self.ground.deadlines.schedule(case)
        return True

    def picked(self, rid: str, att: int, outcome: RunOutcome, now: Moment) -> None:
        """The script of an attempt has ended; of one that is over, or was decided already, nothing comes."""
        case = self.ground.table.cases.get(rid)
        if case is None or case.record.att != att or case.phase != "bidding":
            return
        if (pick := self.rounds[case.rid].pick) is not None and pick.outcome is None:
            pick.outcome = outcome
            self.decide(case, now)

    def _nothing_offered(
        self, case: Transaction, refusals: tuple[Refusal, ...], now: Moment
    ) -> None:
        tries, bidding = case.tries, self.rounds[case.rid]
        for each in refusals:
            if each.code in PERMANENT:
                tries.shunned[each.where] = each
        others = self.candidates.fitting(case).keys() - bidding.machines.keys()
        if bidding.unready and all(self.experience.rests(each, now) for each in others):
            self._wait_until_ready(case, now)
            return
        tries.rounds += 1
        if tries.rounds >= ROUNDS_MAX or not (
            self.candidates.fitting(case) or self.candidates.absent(case)
        ):
            why = tuple(dict.fromkeys((*tries.shunned.values(), *refusals)))
            self.ground.prepare.close(case, error_of(why), "failed", now)
        else:
            self.ground.prepare.give_up_attempt(case, "no site has offered a place", refusals, now)

    def _wait_until_ready(self, case: Transaction, now: Moment) -> None:
        """Ask again, ever less often, sites that will be ready within seconds: no other site fits."""
        if not case.resend_at_ms:
            self.ground.prepare.wait_for_votes(case, now)
        case.phase_deadline_ms = case.deadline_ms
        self.ground.deadlines.schedule(case)

    def placed(self, case: Transaction, now: Moment) -> None:
        """The register has it: the job is where it was promised. The second best place is free."""
        bidding = self.rounds.get(case.rid)
        self.release_reserve(case, bidding.reserve_lost if bidding is not None else None)
        for want in case.record.wants if case.record.job.placed is not None else ():
            site = split_resource(want.resource)[0]
            self.tally.of(site).note_placed(case.rid, want.end, now.wall_s)

    def release_reserve(self, case: Transaction, won: m.Won | None = None) -> None:
        """The winner has voted, or nothing comes of the job: the second best place is free."""
        bidding = self.rounds.get(case.rid)
        if bidding is not None and bidding.reserve:
            site, bidding.reserve = bidding.reserve, ""
            self.ground.prepare.release(case, site, won=won)
