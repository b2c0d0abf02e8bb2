"""Ways to get promises of batch systems wrong, put into the shipped code at run time."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from kalends.resource_servers.participation.provision.dangers import Dangers
from kalends.resource_servers.participation.provision.grant_table import GrantTable
from kalends.resource_servers.participation.provision.mirror import Mirror
from kalends.resource_servers.participation.provision.provisions import (
    Provisions,
    ProvisionTypes,
)
from tests.simulation.climates import BATCH_PROMISES_LOST, BATCH_SYSTEMS
from tests.simulation.mutations import Mutation, world_with


def grants_with(**parts: Any) -> partial[Provisions]:
    """Return what makes a guard with other parts, by the names of `ProvisionTypes`."""
    return partial(Provisions, types=ProvisionTypes(**parts))


class EagerVotes(Provisions):
    """The vote leaves when the system has been asked, and not when it has granted."""

    def intend(self, stake: Any, now: Any, then: Any) -> Any:
        refusal = super().intend(stake, now, lambda refusals, now: None)
        if refusal is None:
            then((), now)
        return refusal


class BelievesDone(Mirror):
    """Done is believed, whatever the system has under the name then."""

    def _end(self, grant: Any, sight: Any, answer: Any, now: Any) -> None:
        target = self._target(grant, now)
        if answer.outcome == "done" and answer.found is not None and target is not None:
            wish = self._wish(grant, target)
            there = replace(
                answer.found, nodes=wish.nodes, cores=wish.cores, licences=wish.licences
            )
            answer = replace(answer, found=there)
        super()._end(grant, sight, answer, now)


class NodesAlone(Mirror):
    """The right nodes are enough, however many of their cores, or licences, the system has kept."""

    def _shows(self, grant: Any, target: Any, now: Any) -> bool:
        wish = replace(self._wish(grant, target), cores=(), licences=())
        return self._sights[grant.number].shows(wish, self._clock_s(grant, now))


class SilenceBelieved(Mirror):
    """What has had no answer was not carried out, it is thought."""

    def _end(self, grant: Any, sight: Any, answer: Any, now: Any) -> None:
        if answer.outcome == "unknown":
            answer = replace(answer, outcome="refused")
        super()._end(grant, sight, answer, now)

    def _sweep(self, system: str, name: str, now: Any) -> None:
        pass


class NothingReleased(Provisions):
    """Grants stay when their claims are gone."""

    def left(self, rid: str, claims: Any, *, heir: str = "") -> None:
        self._intents.pop(rid, None)


class BlindMirror(Mirror):
    """What an operator, or a crash, has changed is never looked for."""

    def _hear(self, system: Any, state: Any, ended: Any, now: Any) -> None:
        for grant in self.grants.of_system(system):
            sight = self._sights[grant.number]
            if not sight.errand and not sight.seen:
                sight.seen, sight.found = True, None
                self.compare(grant)


class RoomOfClaims(GrantTable):
    """Room is free when the system is told to give it up, and not when it has."""

    def keep_room(self, root: str) -> bool:
        return True


class Patient(Dangers):
    """What the system cannot keep is an alarm, and nothing else."""

    def _due_ms(self, grant: Any, danger: Any, now: Any, *, seen: bool) -> int | None:
        return None


class NothingEvaded(Dangers):
    """Users have to move, and other nodes are free."""

    def _evade(self, grant: Any, now: Any, *, surely_absent: bool) -> bool:
        return False


class AllInDanger(Dangers):
    """Whatever happens to one node costs every promise there."""

    def _why_not(self, grant: Any) -> str:
        found = self.foreign.found.get(grant.resource)
        if found and grant.wanted is not None:
            return "something has happened"
        return super()._why_not(grant)


MUTATIONS_OF_PROVISION: Final = tuple(
    Mutation(name, world_with(guard=broken), climate)
    for climate, name, broken in (
        (BATCH_SYSTEMS, "a vote before its grant", EagerVotes),
        (BATCH_SYSTEMS, "grants that nobody reads back", grants_with(mirror=BelievesDone)),
        (BATCH_SYSTEMS, "cores and licences that nobody counts", grants_with(mirror=NodesAlone)),
        (BATCH_SYSTEMS, "silence taken for a no", grants_with(mirror=SilenceBelieved)),
        (BATCH_SYSTEMS, "grants that are never released", NothingReleased),
        (BATCH_SYSTEMS, "drift that nobody looks for", grants_with(mirror=BlindMirror)),
        (BATCH_SYSTEMS, "room freed before it is given back", grants_with(grants=RoomOfClaims)),
        (BATCH_PROMISES_LOST, "promises that nobody can keep, kept", grants_with(dangers=Patient)),
        (
            BATCH_PROMISES_LOST,
            "promises given up before other nodes are tried",
            grants_with(dangers=NothingEvaded),
        ),
        (BATCH_PROMISES_LOST, "promises given up that are kept", grants_with(dangers=AllInDanger)),
    )
)
