"""Brokers of a federation: the sites that they know, what they have learned of them, and whom they ask."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from random import Random
from typing import Final, NamedTuple

from bid_jobs import FederatedJob
from bid_sites import FederatedSite

from kalends.core.intervals import Moment
from kalends.federation.breadth import sites_to_ask
from kalends.federation.draws import draw_of
from kalends.federation.experience import Experience
from kalends.federation.learned_runs import JobRun, LearnedRuns
from kalends.federation.offered_places import OfferedPlace
from kalends.federation.site_choice import Bidder, whom_to_ask

ROUND_TRIP_MS: Final = 80.0
FAR_SIGMA: Final = 0.5
"""How sites differ in distance."""
HOME_MS: Final = 0.4


class Setting(NamedTuple):
    """One simulated federation, and how its brokers choose.

    `choice`: "shipped", that is by history (waits and run times) with one at random; "history" without that
    one; "waits", which knows no run times; "random". `breadth`: a number, "weight" (of node-seconds, as
    shipped), "time" (of seconds alone), or "all". `lock`: what a bid holds (`bid_locks.LOCKS`). `skew`: see
    `bid_jobs.stream`. `padded`: users know no speeds (`bid_jobs.padded`). `run_times`: what is compared are
    the "limits"; corrected by what was "learned", as shipped, of a user at a site; or the "true" ones.
    """

    sites: int
    jobs: int
    choice: str = "shipped"
    breadth: str = "weight"
    lock: str = "places"
    away: float = 0.0
    burst: int = 1
    skew: float = 3.0
    load: float = 0.8
    known: int = 64
    padded: bool = False
    run_times: str = "limits"
    seed: int = 1996


class NoHistory(Experience):
    """Knows who answers, and nothing of how long jobs wait: then chance decides."""

    def expected_wait_s(self, site: str, now: Moment) -> float:
        return 0.0


class FederatedBroker:
    """The broker of one home: whom it knows, how far they are, and what it has learned."""

    def __init__(self, home: int, sites: Sequence[FederatedSite], setting: Setting) -> None:
        self._setting = setting
        draw = Random(f"{setting.seed} broker {home}")
        others = draw.sample(range(len(sites)), min(setting.known + 1, len(sites)))
        numbers = [number for number in others if number != home][: setting.known]
        self.known = [sites[number] for number in (home, *numbers)]
        self.round_trip_ms = {
            site.number: ROUND_TRIP_MS * exp(draw.gauss(0, FAR_SIGMA)) for site in self.known
        }
        self.round_trip_ms[home] = HOME_MS
        self.experience = NoHistory() if setting.choice == "random" else Experience()
        self.learned = LearnedRuns()
        self.widest = sorted(site.nature.nodes for site in self.known)[-3:][0]
        self._by_runs = setting.choice not in ("random", "waits")

    def bidders(self, job: FederatedJob) -> tuple[list[Bidder], list[Bidder]]:
        """The home, if it is large enough, and the others that are; how fast they are is known."""
        fitting = [
            Bidder(
                site.name,
                (f"{site.name}/box",),
                runs_s=self.expected_s(job, site) if self._by_runs else 0.0,
            )
            for site in self.known
            if site.nature.nodes >= job.nodes
        ]
        at_home = int(self.known[0].nature.nodes >= job.nodes)
        return fitting[:at_home], fitting[at_home:]

    def expected_s(self, job: FederatedJob, site: FederatedSite) -> float:
        """How long the job runs at a site, as far as this broker knows."""
        if self._setting.run_times == "true":
            return site.nature.seconds(job.run_s)
        limit_s = site.nature.limit(job)
        if self._setting.run_times == "limits":
            return limit_s
        return limit_s * self.learned.learned(job.user, site.name).share

    def ended(self, job: FederatedJob, site: FederatedSite) -> None:
        """A job of this broker has ended there."""
        share = site.nature.seconds(job.run_s) / site.nature.limit(job)
        self.learned.note(JobRun(job.user, "", site.name, share, whole=True))

    def whom(
        self, job: FederatedJob, attempt: int, asked_before: frozenset[str], now: Moment
    ) -> list[Bidder]:
        """Return the sites to ask at this attempt."""
        homes, others = (
            [bidder for bidder in bidders if bidder.site not in asked_before]
            for bidders in self.bidders(job)
        )
        of = self._setting
        k = breadth_of(of.breadth, job, len(homes) + len(others))
        draw = draw_of(f"{of.seed} {job.number}", attempt)
        more = of.choice == "history"
        chosen = whom_to_ask(others, k + more, self.experience, draw, now, homes)
        # By history alone: all but the one by chance, which is the last.
        return chosen[:k]


class Bid(NamedTuple):
    site: FederatedSite
    number: int
    place: OfferedPlace


class Round:
    """One attempt of a job: who was asked and when, who has answered, and what has become of it."""

    def __init__(self, job: FederatedJob, attempt: int, asked: Sequence[FederatedSite]) -> None:
        self.job = job
        self.attempt = attempt
        self.key = f"the-job-{job.number}-{attempt}"
        self.silent = {site.name: site for site in asked}
        self.asked = len(asked)
        self.sent_ms = 0.0
        self.bids: dict[str, Bid] = {}
        self.ranked: list[Bid] = []
        """Undecided ones after the decision: the one that is asked to promise, and the runner-up."""
        self.decided = self.over = False


def breadth_of(breadth: str, job: FederatedJob, sites: int) -> int:
    """How many of `sites` are asked."""
    if breadth == "weight":
        return sites_to_ask(job.nodes, int(job.limit_s), sites)
    if breadth == "time":
        return sites_to_ask(1, int(job.limit_s), sites)
    return sites if breadth == "all" else min(int(breadth), sites)
