"""Ways to get the owner's approval wrong, put into the shipped code at run time."""

from __future__ import annotations

from typing import Any, Final

from kalends.broker.coordination.owner_approvals import OwnerApprovals
from kalends.resource_servers.participation.approval.owner_approval import OwnerApproval
from kalends.resource_servers.participation.claims.claims import Claims
from tests.simulation.climates import OWNERS_THINK
from tests.simulation.mutations import Mutation, world_with
from tests.simulation.owners import AnsweredSoon, Guarded


class AnyWordDoes(AnsweredSoon):
    def why_not(self, stake: Any, named: Any) -> Any:
        return () if stake.petition is not None else super().why_not(stake, named)


class PromisedBeforeTheWord(Guarded):
    """What is before the owner is promised, as soon as a broker asks; this one's does."""

    approval_type: type[OwnerApproval] = AnyWordDoes


class Impatient(OwnerApprovals):
    """A broker that asks for promises once owners have been asked."""

    def _waits(self, case: Any, part: Any, says: Any, now: Any) -> None:
        part.owner = says
        if all(each.owner is not None for each in case.parts.values() if each.approval):
            self.prepare.prepare(case, now)


class AskedOnce(AnsweredSoon):
    def unapproved(self, principal: Any, wants: Any, replaces: str, petition: Any) -> Any:
        if petition is not None and petition.state == "approved":
            return ()
        return super().unapproved(principal, wants, replaces, petition)


class ApprovedForGood(Guarded):
    """Once approved, a request may have any slots."""

    approval_type: type[OwnerApproval] = AskedOnce


class WordsInMemory(Claims):
    def end_petition(self, stake: Any, petition: Any) -> None:
        stake.petition = petition
        if not petition.stands:
            self.refuse(stake, stake.att, "abort")


class WordForgotten(Guarded):
    """An approval is told, and a crash takes it back."""

    claims_type: type[Claims] = WordsInMemory


MUTATIONS_OF_APPROVAL: Final = (
    Mutation(
        "promised before the owner's word",
        world_with(participant=PromisedBeforeTheWord, coordinator=Impatient),
        OWNERS_THINK,
    ),
    Mutation("approved for good", world_with(participant=ApprovedForGood), OWNERS_THINK),
    Mutation("the owner's word is forgotten", world_with(participant=WordForgotten), OWNERS_THINK),
)
