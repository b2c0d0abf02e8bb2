"""The Implicit Voting System: the jobs themselves decide how they are packed."""

from __future__ import annotations

from collections.abc import Sequence

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.levels import FCFS_STAR, FFDH_STAR, FFIH_STAR, Packing, PackingRule
from kalends.scheduling.policies.levels.packing import LevelPolicy


class Ivs(LevelPolicy):
    """Switches rules block by block (Gehring and Ramme 1996, section 3.3, Fig. 9).

    While the machine is not saturated (the whole block can be configured at once), FCFS*. Then FFDH*, for
    utilization, if at least half of the block are batch jobs; FFIH*, for short waits, if most are
    interactive.
    """

    rule = FCFS_STAR

    def choose(self, block: Sequence[Job], packing: Packing, now: int) -> PackingRule:
        if self._configurable_at_once(block, packing, now):
            return FCFS_STAR
        interactive = sum(job.interactive for job in block)
        return FFIH_STAR if 2 * interactive > len(block) else FFDH_STAR

    def _configurable_at_once(self, block: Sequence[Job], packing: Packing, now: int) -> bool:
        profile = packing.profile.copy()
        for job in block:
            nodes = self.cluster.width(job)
            if not profile.fits(nodes, now, now + job.requested_s):
                return False
            profile.take(nodes, now, now + job.requested_s)
        return True


class AutonomousIvs(Ivs):
    """IVS without the handshake (section 4.1), by name."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, verified=False)
