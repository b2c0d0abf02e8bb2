"""The wing of jobs in the service of a broker: what it reads, asks and looks after."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kalends.agents.runs import RunOutcome, ScriptRun
from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.wings import Ground
from kalends.broker.effect_runner import Carriers
from kalends.broker.federation.lost_sites import LostSites
from kalends.broker.federation.parts.referrals import Referral
from kalends.broker.federation.parts.wing import FederationParts
from kalends.broker.lives.life import Life
from kalends.broker.planning.directory import Directory
from kalends.broker.register import job_starts
from kalends.broker.register.broker_store import BrokerStore
from kalends.core.intervals import Moment
from kalends.serving.logs import Logger

ENDS_RECALLED: Final = 2_000
"""How many recent jobs a starting broker learns from; reading them takes a fraction of a second."""


class FederationShell:
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

    def machine(self, ground: Ground) -> FederationParts:
        return FederationParts(ground, bid_ms_max=self._bid_ms_max, lost=self._lost_sites.lost)

    def begun(self, coordinator: Coordinator, store: BrokerStore) -> None:
        """A life begins: learn from the last jobs."""
        newest = store.read(job_starts.newest_ends, ENDS_RECALLED)
        coordinator.wing(FederationParts).ends.recall(newest, ENDS_RECALLED)

    def beat(self, life: Life, now: Moment) -> None:
        self._lost_sites.move_jobs(life, now)
