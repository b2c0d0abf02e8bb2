"""Ways to get the owner's approval wrong, put into the shipped code at run time."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from kalends.broker.coordination.owners.owner_approvals import OwnerApprovals
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.voting.negotiation import Negotiation
from kalends.contract.owner_calls import approval_refusal
from kalends.core.refusals import error_of
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.participant import PartTypes
from tests.simulation.climates import OWNERS_AND_CHANGES, OWNERS_ANSWER, OWNERS_THINK
from tests.simulation.disks import RegisterDisk
from tests.simulation.mutations import Mutation, world_with
from tests.simulation.owners import AnsweredSoon, Guarded
from tests.simulation.shipped_site import SHIPPED


class AnyWordDoes(AnsweredSoon):
    def why_not(self, stake: Any, named: Any) -> Any:
        return () if stake.petition is not None else super().why_not(stake, named)


PromisedBeforeTheWord = partial(SHIPPED, consent=AnyWordDoes)
"""What is before the owner is promised, as soon as a broker asks; this one's does."""


class Impatient(OwnerApprovals):
    """A broker that asks for promises once owners have been asked."""

    def _waits(self, case: Any, part: Any, says: Any, now: Any) -> None:
        part.owner = says
        if all(each.owner is not None for each in case.parts.values() if each.approval):
            self.prepare.prepare(case, now)


class AskedOnce(AnsweredSoon):
    def unapproved(self, rid: Any, principal: Any, wants: Any, replaces: str, petition: Any) -> Any:
        if petition is not None and petition.state == "approved":
            return ()
        return super().unapproved(rid, principal, wants, replaces, petition)


ApprovedForGood = partial(SHIPPED, consent=AskedOnce)
"""Once approved, a request may have any slots."""


class WordsInMemory(Claims):
    def keep_word(self, stake: Any, petition: Any) -> None:
        stake.petition = petition
        if not petition.stands:
            self.refuse(stake, stake.att, "abort")


WordForgotten = partial(Guarded, types=PartTypes(claims=WordsInMemory))
"""An approval is told, and a crash takes it back."""


class ReplacesWhatIsGone(RegisterDisk):
    """A change that has waited for its owner takes the place of what was cancelled meanwhile."""

    def apply(
        self, operations: Any, who: str, memories: Any, live: Any, *, full: float, sync: float
    ) -> Any:
        for op in operations:
            if isinstance(op, r.Commit) and op.replaces:
                self.connection.execute(
                    "update request set state = 'commit' where rid = ? and state = 'cancelled' and done"
                    " and exists (select 1 from request where rid = ? and att = ? and state = 'open')",
                    (op.replaces, op.rid, op.att),
                )
        return super().apply(operations, who, memories, live, full=full, sync=sync)


class RecallEnds(Negotiation):
    """What an older request takes while owners think is not waited for."""

    def _hold_again(self, case: Any, now: Any) -> None:
        wanted = next(iter(case.record.wants or case.record.spec.wants), None)
        where = wanted.resource if wanted is not None else ""
        self.prepare.close(case, error_of([approval_refusal(where, False, "")]), "failed", now)


class AsksAnew(AnsweredSoon):
    """A word that is not what its broker hoped for is asked for again."""

    def ask(self, source: str, ask: Any, now: Any) -> None:
        stake = self.book.stakes.get(ask.rid)
        if stake is not None and stake.petition is not None and not stake.petition.stands:
            stake.petition = replace(stake.petition, state="pending")
            self.claims.store(stake, "petition")
            return
        super().ask(source, ask, now)


DeclinedForNow = partial(SHIPPED, consent=AsksAnew)


MUTATIONS_OF_APPROVAL: Final = (
    Mutation(
        "a change may replace what was cancelled",
        world_with(participant=Guarded, register=ReplacesWhatIsGone),
        OWNERS_AND_CHANGES,
    ),
    Mutation(
        "a recall ends what owners think about",
        world_with(participant=Guarded, coordinator=RecallEnds),
        OWNERS_ANSWER,
    ),
    Mutation("declined for now", world_with(participant=DeclinedForNow), OWNERS_AND_CHANGES),
    Mutation(
        "promised before the owner's word",
        world_with(participant=PromisedBeforeTheWord, coordinator=Impatient),
        OWNERS_THINK,
    ),
    Mutation("approved for good", world_with(participant=ApprovedForGood), OWNERS_THINK),
    Mutation("the owner's word is forgotten", world_with(participant=WordForgotten), OWNERS_THINK),
)
