"""Ways to get promises of batch systems wrong, put into the shipped code at run time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from kalends.resource_servers.participation.claim_handler import ClaimHandler
from kalends.resource_servers.participation.provision.dangers import Dangers
from kalends.resource_servers.participation.provision.grant_table import GrantTable
from kalends.resource_servers.participation.provision.mirror import Mirror
from kalends.resource_servers.participation.provision.provisions import Provisions
from tests.simulation.climates import BATCH_PROMISES_LOST, BATCH_SYSTEMS
from tests.simulation.mutations import Mutation, world_with
from tests.simulation.shipped_site import site_with


class EagerVotes(ClaimHandler):
    def _await_grants(self, stake: Any, now: Any, answer: Any) -> None:
        if self.provisions.intend(stake, now, lambda refusals, now: None) is None:
            self.claims.promise(stake, "granted", now)
            answer(())
        else:
            super()._await_grants(stake, now, answer)


VotesBeforeGranted = site_with(claim_handler=EagerVotes)
"""The vote leaves when the system has been asked, and not when it has granted."""


class BelievesDone(Mirror):
    def _end(self, grant: Any, sight: Any, answer: Any, now: Any) -> None:
        target = self._target(grant, now)
        if answer.outcome == "done" and answer.found is not None and target is not None:
            wish = self._wish(grant, target)
            there = replace(
                answer.found, nodes=wish.nodes, cores=wish.cores, licences=wish.licences
            )
            answer = replace(answer, found=there)
        super()._end(grant, sight, answer, now)


GrantsNotRead = site_with(mirror=BelievesDone)
"""Done is believed, whatever the system has under the name then."""


class NodesAlone(Mirror):
    def _shows(self, grant: Any, target: Any, now: Any) -> bool:
        wish = replace(self._wish(grant, target), cores=(), licences=())
        return self._sights[grant.number].shows(wish, self._clock_s(grant, now))


PartsNotCompared = site_with(mirror=NodesAlone)
"""The right nodes are enough, however many of their cores, or licences, the system has kept."""


class SilenceBelieved(Mirror):
    def _end(self, grant: Any, sight: Any, answer: Any, now: Any) -> None:
        if answer.outcome == "unknown":
            answer = replace(answer, outcome="refused")
        super()._end(grant, sight, answer, now)

    def _sweep(self, system: str, name: str, now: Any) -> None:
        pass


SilenceIsNo = site_with(mirror=SilenceBelieved)
"""What has had no answer was not carried out, it is thought."""


class NothingReleased(Provisions):
    def left(self, rid: str, claims: Any, *, heir: str = "") -> None:
        self._intents.pop(rid, None)


NeverReleased = site_with(provisions=NothingReleased)
"""Grants stay when their claims are gone."""


class BlindMirror(Mirror):
    def _hear(self, system: Any, state: Any, ended: Any, now: Any) -> None:
        for grant in self.grants.of_system(system):
            sight = self._sights[grant.number]
            if not sight.errand and not sight.seen:
                sight.seen, sight.found = True, None
                self.compare(grant)


DriftUnseen = site_with(mirror=BlindMirror)
"""What an operator, or a crash, has changed is never looked for."""


@dataclass(eq=False)
class RoomOfClaims(GrantTable):
    def keep_room(self, root: str) -> bool:
        return True


FreedWhenTold = site_with(grants=RoomOfClaims)
"""Room is free when the system is told to give it up, and not when it has."""


class Patient(Dangers):
    def _due_ms(self, grant: Any, danger: Any, now: Any, *, seen: bool) -> int | None:
        return None


class NothingEvaded(Dangers):
    def _evade(self, grant: Any, now: Any, *, surely_absent: bool) -> bool:
        return False


class AllInDanger(Dangers):
    def _why_not(self, grant: Any) -> str:
        found = self.foreign.found.get(grant.resource)
        if found and grant.wanted is not None:
            return "something has happened"
        return super()._why_not(grant)


NeverGivenUp = site_with(dangers=Patient)
"""What the system cannot keep is an alarm, and nothing else."""


GivenUpAtOnce = site_with(dangers=NothingEvaded)
"""Users have to move, and other nodes are free."""


GivenUpAll = site_with(dangers=AllInDanger)
"""Whatever happens to one node costs every promise there."""


MUTATIONS_OF_PROVISION: Final = tuple(
    Mutation(name, world_with(participant=broken), climate)
    for climate, name, broken in (
        (BATCH_SYSTEMS, "a vote before its grant", VotesBeforeGranted),
        (BATCH_SYSTEMS, "grants that nobody reads back", GrantsNotRead),
        (BATCH_SYSTEMS, "cores and licences that nobody counts", PartsNotCompared),
        (BATCH_SYSTEMS, "silence taken for a no", SilenceIsNo),
        (BATCH_SYSTEMS, "grants that are never released", NeverReleased),
        (BATCH_SYSTEMS, "drift that nobody looks for", DriftUnseen),
        (BATCH_SYSTEMS, "room freed before it is given back", FreedWhenTold),
        (BATCH_PROMISES_LOST, "promises that nobody can keep, kept", NeverGivenUp),
        (BATCH_PROMISES_LOST, "promises given up before other nodes are tried", GivenUpAtOnce),
        (BATCH_PROMISES_LOST, "promises given up that are kept", GivenUpAll),
    )
)
