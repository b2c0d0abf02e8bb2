"""Machines that could run a job, the sites that are asked, and why others are not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kalends.broker.coordination.record.refusal_errors import site_down
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.jobs.parts.places_elsewhere import placement_of
from kalends.broker.planning.directory import Directory
from kalends.core.attributes import described, matches, worth_s
from kalends.core.errors import KalendsError, NotFound, Refusal, RefusalCode
from kalends.core.identifiers import split_resource
from kalends.core.implementations import JobWay, first_to_end, ways_on
from kalends.core.intervals import Moment
from kalends.core.jobs import JobRequest
from kalends.core.limits import SOLICITED_MACHINES_MAX, WAYS_MAX
from kalends.core.refusals import error_of
from kalends.core.requests import Term
from kalends.core.resources import ResourceInfo
from kalends.core.transport import Rates
from kalends.federation.breadth import sites_to_ask
from kalends.federation.draws import draw_of
from kalends.federation.experience import Experience
from kalends.federation.learned_runs import UNKNOWN, LearnedRuns, LearnedShare
from kalends.federation.site_choice import Bidder, best_known, whom_to_ask

Fitting = Mapping[str, tuple[str, ...]]
"""The machines of each site that could run a job."""


@dataclass(eq=False)
class Candidates:
    """The machines that sites have told of, and what bids have shown of the sites."""

    directory: Directory
    rates: Rates = field(default_factory=Rates)
    """The rates of the links between sites that the operator has configured."""
    experience: Experience = field(default_factory=Experience)
    """In memory only: a new start learns anew."""
    learned: LearnedRuns = field(default_factory=LearnedRuns)
    """In memory only: a new start takes what the register has kept of the last jobs."""

    def fitting(self, case: Transaction) -> Fitting:
        """Return the machines that could run the job, by what is known of them, for each site.

        Sites that have bid for it, and then did not promise, are left out while there are others: who
        outbids all and never keeps its word would win every time.
        """
        fitting: dict[str, list[str]] = {}
        for site, info in self._wanted(case):
            if self._why_not(case, site, info) is None and not case.tries.shuns(info.name):
                fitting.setdefault(site, []).append(info.name)
        kept = {site: names for site, names in fitting.items() if site not in case.tries.unkept}
        return {
            site: tuple(names[:SOLICITED_MACHINES_MAX]) for site, names in (kept or fitting).items()
        }

    def bidders(self, case: Transaction, fitting: Fitting) -> dict[str, Bidder]:
        """Return the sites with machines that fit, as those who choose see them."""
        return {
            site: Bidder(
                site,
                machines,
                max(self.preference_s(case, each) for each in machines),
                self.transport_s(case, site)
                + min(
                    self.learned_share(case, name, each.implementation).share * each.limit_s
                    for name, each in self.jobs_on(case, machines).items()
                ),
            )
            for site, machines in fitting.items()
        }

    def to_ask(self, case: Transaction, bidders: Mapping[str, Bidder], now: Moment) -> list[str]:
        """Return the sites to ask of those that fit: homes, the best known, one by chance; at least one."""
        homes = [bidders[site] for site in self.homes(case, bidders, now)]
        draw = draw_of(case.rid, case.record.att)
        duration_s = case.record.spec.request.duration_s
        count = sites_to_ask(term_of(case).units, duration_s, len(bidders))
        everybody = list(bidders.values())
        chosen = whom_to_ask(everybody, count, self.experience, draw, now, homes)
        asked = [each.site for each in chosen]
        # Where all rest after failures, a user is not told so without a try.
        return asked or sorted(bidders, key=self.experience.active_at_ms)[:1]

    def homes(self, case: Transaction, bidders: Mapping[str, Bidder], now: Moment) -> list[str]:
        """Return the sites that are asked in any case: of a virtual site one that is reached by it."""
        place = placement_of(case.record)
        named = list(dict.fromkeys((*place.homes, *(each.site for each in place.data))))
        homes = [site for site in named if site in bidders]
        draw = draw_of(case.rid, case.record.att)
        for virtual in named:
            reached = [
                each
                for site, each in bidders.items()
                if virtual in self.directory.sites[site].through
            ]
            best = best_known(reached, self.experience, draw, now)
            homes += [best.site] if best is not None else []
        return homes

    def job_on(self, case: Transaction, info: ResourceInfo) -> JobRequest | None:
        """Return the job as it would run on a machine; None where no implementation of it fits."""
        place = placement_of(case.record)
        if not place.implementations:
            return place.job
        return first_to_end(
            place.job, place.implementations, described(info), info.capacity,
            lambda name: self.learned_share(case, info.name, name).share,
        )  # fmt: skip

    def ways_on(self, case: Transaction, machine: str) -> tuple[JobWay, ...]:
        """Return the ways to run the job on `machine`, if there are several; the first is `job_on`."""
        place, info = placement_of(case.record), self.directory.resources[machine]
        if not place.implementations:
            return ()
        found = ways_on(
            place.implementations, described(info), info.capacity,
            lambda name: self.learned_share(case, machine, name).share,
        )  # fmt: skip
        return tuple(found[:WAYS_MAX]) if len(found) > 1 else ()

    def learned_share(self, case: Transaction, machine: str, implementation: str) -> LearnedShare:
        """Return what share of its limit the job is expected to run on `machine` in an implementation."""
        if placement_of(case.record).by_limits:
            return UNKNOWN
        site = split_resource(machine)[0]
        return self.learned.learned(case.record.user, site, implementation)

    def jobs_on(self, case: Transaction, machines: Iterable[str]) -> dict[str, JobRequest]:
        """Return the job as it would run on each of `machines`."""
        jobs = {each: self.job_on(case, self.directory.resources[each]) for each in machines}
        return {each: job for each, job in jobs.items() if job is not None}

    def transport_s(self, case: Transaction, site: str) -> float:
        """Return how long the job's input takes to `site`, in seconds."""
        data = placement_of(case.record).data
        return self.rates.transport_s(data, site) if data else 0.0

    def preference_s(self, case: Transaction, machine: str) -> int:
        """Return how many seconds of waiting `machine` is worth to the job's user; 0 for one that is gone."""
        info, prefer = self.directory.resources.get(machine), placement_of(case.record).prefer
        return worth_s(prefer, described(info)) if info is not None and prefer else 0

    def absent(self, case: Transaction) -> list[Refusal]:
        """Return a refusal for each site that is away, and may run the job once it is back.

        Of a site that was not there since this broker has started nothing is known.
        """
        left = placement_of(case.record).elsewhere
        sites = self.directory.sites.items()
        unseen = [self._away(name) for name, each in sites if not each.epoch and name not in left]
        lacks = [
            self._why_not(case, site, info)
            for site, info in self._wanted(case)
            if not case.tries.shuns(info.name)
        ]
        return [*unseen, *(each for each in lacks if each and each.code == RefusalCode.SITE_DOWN)]

    def lacks(self, case: Transaction) -> tuple[Refusal, ...]:
        """Return why no site can be asked: what each machine lacks, and which sites are away."""
        lacks = (self._why_not(case, site, info) for site, info in self._wanted(case))
        each_once = dict.fromkeys((*lacks, *self.absent(case)))
        return tuple(each for each in each_once if each is not None)

    def nobody(self, case: Transaction) -> KalendsError:
        """Return the error of a request for which no site can be asked."""
        if refusals := (*case.tries.shunned.values(), *self.lacks(case)):
            return error_of(refusals)
        if placement_of(case.record).elsewhere:
            return NotFound(
                "this broker knows no other such machine: the job stays where it is",
                where="job",
                remedy="see `kalends resources` for all machines",
            )
        return NotFound(
            "this broker knows no such machine that takes jobs",
            where="job",
            remedy="see `kalends resources` for all machines, or name a machine to submit to",
        )

    def _wanted(self, case: Transaction) -> list[tuple[str, ResourceInfo]]:
        """Return the machines with the attributes that are asked for, where it has no place yet, by site."""
        attributes = term_of(case).attributes
        left = placement_of(case.record).elsewhere
        return [
            (site, info)
            for site, machines in sorted(self.directory.machines.items())
            if site not in left
            for info in machines
            if not attributes or matches(described(info), attributes)
        ]

    def _why_not(self, case: Transaction, site: str, info: ResourceInfo) -> Refusal | None:
        if self.job_on(case, info) is None:
            names = ", ".join(each.name for each in placement_of(case.record).implementations)
            detail = f"none of the implementations fits it: {names}"
            return Refusal(where=info.name, code=RefusalCode.NO_PLACE, detail=detail)
        units = term_of(case).units
        if info.capacity < units and not placement_of(case.record).implementations:
            detail = f"{units} nodes, of which it has {info.capacity}"
            return Refusal(where=info.name, code=RefusalCode.TOO_MUCH, detail=detail)
        return None if self.directory.is_up(site) else self._away(site)

    def _away(self, site: str) -> Refusal:
        return site_down(site, self.directory.sites[site].detail or "not connected")


def term_of(case: Transaction) -> Term:
    """Return what the job asks a machine for."""
    return case.record.spec.request.alternatives[0].terms[0]
