"""The wing of jobs in the service of a broker: what it reads, asks, looks after and counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final

from kalends.agents.runs import RunOutcome, ScriptRun
from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.wings import Ground
from kalends.broker.effect_runner import Carriers
from kalends.broker.jobs.lost_sites import LostSites
from kalends.broker.jobs.parts.site_managers import Referral
from kalends.broker.jobs.parts.wing import JobParts
from kalends.broker.planning.directory import Directory
from kalends.broker.register import job_starts
from kalends.broker.register.broker_store import BrokerStore
from kalends.broker.replica.replica import Incarnation
from kalends.core.intervals import Moment
from kalends.federation.bid_tally import BidTally
from kalends.serving.logs import Logger
from kalends.serving.metrics import Metrics

ENDS_RECALLED: Final = 2_000
"""How many recent jobs a starting broker learns from; reading them takes a fraction of a second."""

OUTCOMES: Final = ("asked", "bid", "late", "silent", "chosen", "placed")
"""Counts of `SiteCounts`."""


class JobShell:
    """`run_script` runs scripts that order bids, `refer` asks managers of virtual sites.

    A site is lost after `lost_ms`; 0: never.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        bid_ms_max: int,
        lost_ms: int,
        run_script: Callable[[ScriptRun], Awaitable[RunOutcome]],
        refer: Callable[[Referral], Awaitable[tuple[str, ...] | None]],
        logger: Logger,
    ) -> None:
        self._bid_ms_max = bid_ms_max
        self._lost_sites = LostSites(directory, lost_ms, logger)
        self.carriers: Carriers = {ScriptRun: run_script, Referral: refer}

    def machine(self, ground: Ground) -> JobParts:
        return JobParts(ground, bid_ms_max=self._bid_ms_max, lost=self._lost_sites.lost)

    def begun(self, coordinator: Coordinator, store: BrokerStore) -> None:
        """An incarnation begins: learn from the last jobs."""
        newest = store.read(job_starts.newest_ends, ENDS_RECALLED)
        coordinator.wing(JobParts).ends.recall(newest, ENDS_RECALLED)

    def beat(self, current: Incarnation, now: Moment) -> None:
        self._lost_sites.move_jobs(current, now)


def watch_bids(metrics: Metrics, sites: Iterable[str], tally: Callable[[], BidTally]) -> None:
    """Show how sites answer the questions for bids, as `tally` has it whenever the metrics are read."""
    bids = metrics.gauge(
        "kalends_bids", "Answers to questions for bids, since the start.", ("site", "outcome")
    )
    refused = metrics.gauge(
        "kalends_bids_refused", "Questions for bids that were refused.", ("site",)
    )
    for site in sites:
        for outcome in OUTCOMES:
            bids.labels(site, outcome).set_function(partial(_bids, tally, site, outcome))
        refused.labels(site).set_function(partial(_refused, tally, site))


def _bids(tally: Callable[[], BidTally], site: str, outcome: str) -> float:
    return float(getattr(tally().of(site), outcome))


def _refused(tally: Callable[[], BidTally], site: str) -> float:
    return float(tally().of(site).refused.total())
