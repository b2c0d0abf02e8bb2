"""Ways to break hand-overs, put into the shipped code at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import structs

from kalends.broker.coordination.record import decision_record as r
from kalends.contract import messages as m
from kalends.core.errors import Refusal
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.admission import Admission
from tests.simulation.climates import HAND_OVERS
from tests.simulation.disks import RegisterDisk
from tests.simulation.mutations import Mutation, world_with
from tests.simulation.shipped_site import site_with


class NeedsNoOffer(RegisterDisk):
    """A hand-over is committed as any other change, also when its offer was withdrawn meanwhile."""

    def write(self, writes: Sequence[Any]) -> list[Any]:
        return super().write(
            [structs.replace(op, heir=None) if isinstance(op, r.Commit) else op for op in writes]
        )


class InheritsRights(Admission):
    """The rules allow the new holder whatever they have allowed the old one."""

    def why_not(self, source: str, visit: m.Visit, now: Moment) -> tuple[Refusal, ...]:
        found = super().why_not(source, visit, now)
        return () if visit.heir_of else found


MUTATIONS_OF_SHARING: Final = (
    Mutation("a hand-over needs no offer", world_with(register=NeedsNoOffer), HAND_OVERS),
    Mutation(
        "the rules do not look at who takes over",
        world_with(participant=site_with(admission=InheritsRights)),
        HAND_OVERS,
    ),
)
