"""Brokers that have sites bid for jobs, in virtual time; what they decide by is what is shipped.

A message takes half of a round trip that is drawn: around 80 ms, with far and near sites. A broker asks,
waits and compares by `kalends.federation`; the sites are real queues. The winner is asked to promise
its place while the runner-up's is held; the user is told when the promise is there.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from itertools import count
from math import exp
from random import Random
from typing import Final

from bid_brokers import Bid, FederatedBroker, Round, Setting
from bid_jobs import FederatedJob, SiteNature, natures, padded, stream
from bid_locks import LOCKS
from bid_sites import T0_S, Begun, FederatedSite
from bid_tally import Tally

from kalends.core.intervals import Moment
from kalends.federation.offered_places import OfferedPlace, best_first
from kalends.federation.patience import enough, enough_at_ms

MESSAGE_SIGMA: Final = 0.3
"""How messages on one line differ."""
EVALUATION_MS: Final = 3.0
"""A site's processor works so long on a bid."""
ANSWER_MS: Final = 1_000.0
VOTE_MS: Final = 1_000.0
HOLD_MS: Final = 10_000.0
AGAIN_MS: Final = 5_000.0
"""When nobody has bid whom a broker knows it tries again."""
ROUNDING_MS: Final = 0.001
"""Added to a deadline, so that it has surely passed when it is looked at, however it was rounded."""
AWAY_MS: Final = 600_000.0
"""So long a site that is cut off is away, in the mean."""


class BidWorld:
    """All sites and brokers of a setting; `run` returns what was measured."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.now_ms = 0.0
        self.tally = Tally(setting.jobs)
        self._draw = Random(f"{setting.seed} messages")
        self._events: list[tuple[float, int, int, Callable[[], None]]] = []
        self._numbers = count()
        of_sites = Random(f"{setting.seed} sites {setting.sites}")
        self.natures: list[SiteNature] = natures(setting.sites, of_sites)
        self.sites = [
            LOCKS[setting.lock](number, nature, partial(self._at, 0), self._begun)
            for number, nature in enumerate(self.natures)
        ]
        self._by_name = {site.name: site for site in self.sites}
        self._brokers: dict[int, FederatedBroker] = {}
        self._places: dict[str, OfferedPlace] = {}
        """What each job was told that was committed, by key."""
        self._jobs: dict[str, FederatedJob] = {}
        for site in self.sites:
            site.fill(setting.load, of_sites)
            if setting.away:
                self._come_and_go(site, away=of_sites.random() < setting.away)

    def run(self) -> Tally:
        """Let all happen until every job has begun."""
        draw = Random(f"{self.setting.seed} jobs {self.setting.sites}")
        of = self.setting
        for drawn in stream(of.jobs, self.natures, of.load, of.burst, of.skew, draw):
            # Nobody asks for more than the third largest machine that their broker knows has.
            widest = self._broker(drawn.home).widest
            job = drawn._replace(nodes=min(drawn.nodes, widest))
            if of.padded:
                job = padded(job, of.seed)
            self._at(1, job.submit_ms, partial(self._ask, job, 1, frozenset()))
        while self.tally.begun < of.jobs:
            self.now_ms, _, _, happen = heapq.heappop(self._events)
            happen()
        self.tally.asked_of = [site.asked for site in self.sites]
        return self.tally

    def _at(self, rank: int, at_ms: float, happen: Callable[[], None]) -> None:
        """Put what ends before all else that happens at the same time."""
        heapq.heappush(self._events, (max(at_ms, self.now_ms), rank, next(self._numbers), happen))

    def _after(self, ms: float, happen: Callable[[], None]) -> None:
        self._at(1, self.now_ms + ms, happen)

    def _now(self) -> Moment:
        return Moment(int(self.now_ms), 1_000 * T0_S + int(self.now_ms))

    # The line

    def _come_and_go(self, site: FederatedSite, *, away: bool) -> None:
        share = self.setting.away
        mean_ms = AWAY_MS if away else AWAY_MS * (1 - share) / share
        until_ms = self.now_ms + self._draw.expovariate(1 / mean_ms)
        site.away_until_ms = until_ms if away else -1.0
        self._at(1, until_ms, partial(self._come_and_go, site, away=not away))

    def _send(self, round_: Round, site: FederatedSite, arrive: Callable[[], None]) -> None:
        """Have a message between a broker and a site arrive, either way."""
        self.tally.messages += 1
        self._after(self._leg_ms(round_, site), arrive)

    def _leg_ms(self, round_: Round, site: FederatedSite) -> float:
        far_ms = self._broker(round_.job.home).round_trip_ms[site.number]
        return far_ms / 2 * exp(self._draw.gauss(0, MESSAGE_SIGMA))

    def _away(self, site: FederatedSite) -> bool:
        return self.now_ms < site.away_until_ms

    # The broker

    def _broker(self, home: int) -> FederatedBroker:
        if home not in self._brokers:
            self._brokers[home] = FederatedBroker(home, self.sites, self.setting)
        return self._brokers[home]

    def _ask(self, job: FederatedJob, attempt: int, asked_before: frozenset[str]) -> None:
        broker = self._broker(job.home)
        bidders = broker.whom(job, attempt, asked_before, self._now())
        if not bidders:
            self.tally.nobody += 1
            self._after(AGAIN_MS, partial(self._ask, job, attempt + 1, frozenset()))
            return
        by_name = {site.name: site for site in broker.known}
        asked = [by_name[bidder.site] for bidder in bidders]
        round_ = Round(job, attempt, asked)
        round_.sent_ms = self.now_ms
        self._jobs[round_.key] = job
        again = partial(self._ask, job, attempt + 1, asked_before | round_.silent.keys())
        for site in asked:
            site.asked += 1
            broker.experience.asked(site.name, self._now())
            self._send(round_, site, partial(self._solicited, round_, site, again))
        self._after(ANSWER_MS, partial(self._deadline, round_, again))

    def _bid_in(self, round_: Round, bid: Bid, again: Callable[[], None]) -> None:
        broker = self._broker(round_.job.home)
        wait_s = bid.place.start_by - self._now().wall_s
        broker.experience.bid(bid.site.name, self.now_ms - round_.sent_ms, wait_s, self._now())
        round_.silent.pop(bid.site.name, None)
        if round_.decided:
            self.tally.late_bids += 1
            self._release(round_, bid)
            return
        runs_s = broker.expected_s(round_.job, bid.site)
        round_.bids[bid.site.name] = bid._replace(place=bid.place._replace(runs_s=runs_s))
        self._decide_if_enough(round_, again)

    def _decide_if_enough(self, round_: Round, again: Callable[[], None]) -> None:
        if round_.decided:
            return
        answered = round_.asked - len(round_.silent)
        usual_ms = self._broker(round_.job.home).experience.usual_answer_ms(round_.silent)
        elapsed_ms = self.now_ms - round_.sent_ms
        if enough(answered, round_.asked, elapsed_ms, usual_ms, ANSWER_MS):
            self._decide(round_, again)
            return
        wait_ms = enough_at_ms(answered, round_.asked, usual_ms, ANSWER_MS)
        if wait_ms < ANSWER_MS:
            at_ms = round_.sent_ms + wait_ms + ROUNDING_MS
            self._at(1, at_ms, partial(self._decide_if_enough, round_, again))

    def _deadline(self, round_: Round, again: Callable[[], None]) -> None:
        experience = self._broker(round_.job.home).experience
        for name in round_.silent:
            experience.silent(name, self._draw.random(), self._now())
        if not round_.decided:
            self._decide(round_, again)

    def _decide(self, round_: Round, again: Callable[[], None]) -> None:
        round_.decided = True
        if not round_.bids:
            self.tally.rounds_in_vain += 1
            again()
            return
        rid = f"{self.setting.seed} {round_.job.number}"
        ranked = best_first((bid.place for bid in round_.bids.values()), rid)
        bids = [round_.bids[place.site] for place in ranked]
        round_.ranked = bids[:2]
        for bid in bids[2:]:
            self._release(round_, bid)
        self.tally.answered(round_.job, self.now_ms)
        self._promise(round_, again)

    def _promise(self, round_: Round, again: Callable[[], None]) -> None:
        """Ask the best that is left to promise its place; without one, ask other sites."""
        if not round_.ranked:
            self.tally.rounds_in_vain += 1
            again()
            return
        bid = round_.ranked[0]
        self._send(round_, bid.site, partial(self._prepared, round_, bid, again))
        self._after(VOTE_MS, partial(self._voted, round_, bid, "silence", again))

    def _voted(self, round_: Round, bid: Bid, vote: str, again: Callable[[], None]) -> None:
        waits = not round_.over and round_.ranked[:1] == [bid]
        if vote == "yes":
            self._send(round_, bid.site, partial(self._told, round_, bid, commit=waits))
        if not waits:
            return
        if vote != "yes":
            self.tally.votes_in_vain += 1
            round_.ranked.pop(0)
            self._promise(round_, again)
            return
        round_.over = True
        self._places[round_.key] = bid.place
        self.tally.promised(round_.job, self.now_ms)
        for other in round_.ranked[1:]:
            self._release(round_, other)

    def _release(self, round_: Round, bid: Bid) -> None:
        self._send(round_, bid.site, partial(self._released, bid))

    # The site

    def _solicited(self, round_: Round, site: FederatedSite, again: Callable[[], None]) -> None:
        if self._away(site):
            return
        site.busy_until_ms = max(site.busy_until_ms, self.now_ms) + EVALUATION_MS
        self._at(1, site.busy_until_ms, partial(self._offer, round_, site, again))

    def _offer(self, round_: Round, site: FederatedSite, again: Callable[[], None]) -> None:
        number, place = site.offer(round_.job, round_.key, self.now_ms)
        bid = Bid(site, number, place)
        self._send(round_, site, partial(self._bid_in, round_, bid, again))
        self._after(HOLD_MS, partial(self._expired, bid))

    def _prepared(self, round_: Round, bid: Bid, again: Callable[[], None]) -> None:
        if not self._away(bid.site):
            vote = "yes" if bid.site.promise(bid.number) else "no"
            self._send(round_, bid.site, partial(self._voted, round_, bid, vote, again))

    def _told(self, round_: Round, bid: Bid, *, commit: bool) -> None:
        """The outcome is repeated until it has arrived."""
        if self._away(bid.site):
            back_ms = bid.site.away_until_ms + self._leg_ms(round_, bid.site)
            self._at(1, back_ms, partial(self._told, round_, bid, commit=commit))
            return
        self.tally.messages += 1
        if not commit:
            bid.site.give_up(bid.number, self.now_ms)
            return
        self.tally.decided_late += self._now().wall_s > bid.place.start_by
        bid.site.take(bid.number, self.now_ms)

    def _released(self, bid: Bid) -> None:
        if not self._away(bid.site):
            self._expired(bid)

    def _expired(self, bid: Bid) -> None:
        if bid.site.is_held(bid.number):
            bid.site.give_up(bid.number, self.now_ms)

    def _begun(self, begun: Begun) -> None:
        if begun.key:
            late_s = begun.since_s - self._places[begun.key].start_by
            job, site = self._jobs[begun.key], self._by_name[self._places[begun.key].site]
            self.tally.started(job, self.now_ms, begun.run_s, late_s)
            ended = partial(self._broker(job.home).ended, job, site)
            self._at(0, self.now_ms + 1_000 * begun.run_s, ended)
