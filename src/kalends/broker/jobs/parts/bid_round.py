"""One round of questions to sites for places in their queues, and their bids."""

from __future__ import annotations

from dataclasses import dataclass, field

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.jobs.parts.places_elsewhere import job_there, placement_of
from kalends.broker.jobs.parts.site_managers import OwnChoice
from kalends.broker.jobs.parts.user_pick import UserPick
from kalends.contract import messages as m
from kalends.core.errors import Refusal
from kalends.core.implementations import JobWay
from kalends.core.jobs import JobRequest


@dataclass(slots=True)
class BidRound:
    """Sites that were asked for places in their queues, and their bids."""

    asked_ms: int = 0
    """When (monotonic)."""
    asked_at_ms: dict[str, int] = field(default_factory=dict)
    """When each site was: later where a manager was asked first."""
    choices: dict[str, OwnChoice] = field(default_factory=dict)
    """Virtual sites whose managers were asked whom to ask, and what is done without an answer."""
    machines: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The machines whose queues were asked for a place, by site."""
    jobs: dict[str, JobRequest] = field(default_factory=dict)
    """The job as it was asked for on each of them: in which implementation."""
    ways: dict[str, tuple[JobWay, ...]] = field(default_factory=dict)
    """The ways in which the queue of each may take it, if there are several; the first is that one."""
    fitting: int = 0
    """How many sites fitted when these were asked."""
    bids: dict[str, m.Bid] = field(default_factory=dict)
    unready: dict[str, tuple[Refusal, ...]] = field(default_factory=dict)
    """What sites have said that take nothing yet: they are asked again."""
    pick: UserPick | None = None
    """The user's script that orders them, once it runs."""
    reserve: str = ""
    """The site of the second best offer: it keeps its place until the winner has voted."""
    reserve_lost: m.Won | None = None
    """The words for that site, once its place is given up because the winner has promised."""

    @property
    def silent(self) -> list[str]:
        """The sites that have not answered."""
        return [
            site for site in self.machines if site not in self.bids and site not in self.unready
        ]

    def jobs_of(self, record: Record, site: str, bid: m.Bid) -> dict[str, JobRequest]:
        """Return the job on each machine of `site`: in the way that it offers, if it was asked for that."""
        place = placement_of(record)
        jobs = {each: self.jobs[each] for each in self.machines[site]}
        for offer in bid.offers:
            if offer.machine in jobs and offer.way < len(ways := self.ways.get(offer.machine, ())):
                jobs[offer.machine] = ways[offer.way].of(place.job, place.implementations)
        return jobs

    def question(
        self, record: Record, site: str, *, secret: str, coords: tuple[str, ...],
        hold_ms: int,
    ) -> m.Solicit:  # fmt: skip
        """Return the question to `site` for the machines of this round."""
        machines, place = self.machines[site], placement_of(record)
        job = place.job
        ways = {each: self.ways[each] for each in machines if self.ways.get(each)}
        return m.Solicit(
            rid=record.rid, att=record.att, stamp=record.stamp, principal=record.principal,
            job=job_there(place, job), machines=machines,
            jobs={
                each: job_there(place, self.jobs[each])
                for each in machines
                if self.jobs[each] != job
            },
            implementations=place.implementations if ways else (), ways=ways,
            rank=place.rank if ways else "", coords=coords, secret=secret, hold_ms=hold_ms,
        )  # fmt: skip
