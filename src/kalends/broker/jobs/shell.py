"""The wing of jobs in the service of a broker: what it reads, asks, looks after and counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
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
from kalends.broker.register.contract import Register
from kalends.broker.replica.replica import Incarnation
from kalends.core.intervals import Moment
from kalends.core.transport import Rates
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
        rates: Rates,
        lost_ms: int,
        run_script: Callable[[ScriptRun], Awaitable[RunOutcome]],
        refer: Callable[[Referral], Awaitable[tuple[str, ...] | None]],
        logger: Logger,
    ) -> None:
        self._bid_ms_max, self._rates = bid_ms_max, rates
        self._lost_sites = LostSites(directory, lost_ms, logger)
        self.carriers: Carriers = {ScriptRun: run_script, Referral: refer}

    def machine(self, ground: Ground) -> JobParts:
        return JobParts(
            ground, bid_ms_max=self._bid_ms_max, rates=self._rates, lost=self._lost_sites.lost
        )

    async def begun(self, coordinator: Coordinator, store: Register) -> None:
        """An incarnation begins: learn from the last jobs."""
        newest = await store.ends(ENDS_RECALLED)
        coordinator.wing(JobParts).ends.recall(newest, ENDS_RECALLED)

    async def beat(self, current: Incarnation, now: Moment) -> Callable[[Moment], None]:
        return await self._lost_sites.look(current, now)


def watch_bids(metrics: Metrics, tally: Callable[[], BidTally]) -> Callable[[str], None]:
    """Return a function that shows how a site answers the questions for bids.

    The metrics are as `tally` has them whenever they are read.
    """
    bids = metrics.gauge(
        "kalends_bids", "Answers to questions for bids, since the start.", ("site", "outcome")
    )
    refused = metrics.gauge(
        "kalends_bids_refused", "Questions for bids that were refused.", ("site",)
    )

    def watch(site: str) -> None:
        for outcome in OUTCOMES:
            bids.labels(site, outcome).set_function(partial(_bids, tally, site, outcome))
        refused.labels(site).set_function(partial(_refused, tally, site))

    return watch


def _bids(tally: Callable[[], BidTally], site: str, outcome: str) -> float:
    return float(getattr(tally().of(site), outcome))


def _refused(tally: Callable[[], BidTally], site: str) -> float:
    return float(tally().of(site).refused.total())
