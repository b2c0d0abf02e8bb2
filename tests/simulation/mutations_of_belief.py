"""Servers that believe what hostile ones say: the climates in which some are must catch each."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kalends.broker.coordination.trust.answer_checks import AnswerChecks
from kalends.broker.coordination.voting.negotiation import Negotiation
from kalends.broker.coordination.voting.outcome_inquiries import OutcomeInquiries
from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.resource_servers.participation.memory.in_doubt import InDoubtResolver
from kalends.resource_servers.participation.ownership import Ownership
from tests.simulation.climates import HOSTILE_BROKER, HOSTILE_NEAR, HOSTILE_OWNER, HOSTILE_SITE
from tests.simulation.mutations import Mutation, world_with
from tests.simulation.shipped_site import site_with


class HearsAnything(AnswerChecks):
    """What a site answers is not judged."""

    def heard(self, site: str, message: m.Message, now: Any) -> m.Message:
        return message


class PaysAnything(Negotiation):
    """What a site says that something costs is not judged."""

    def complaint_of(self, case: Any, part: Any, cost: Any, *, promised: bool) -> str:
        return ""


class AsksForNoLimit(Negotiation):
    """What the user allows is the site's business alone."""

    def complaint_of(self, case: Any, part: Any, cost: Any, *, promised: bool) -> str:
        return super().complaint_of(case, part, cost, promised=False)


class TellsWhoeverAsks(OutcomeInquiries):
    """Every site that knows the id of a commit is told all of it."""

    def answer(self, ask: Any, row: Any, now: Any) -> None:
        if row is not None:
            ask = msgspec.structs.replace(ask, site=next(iter(row.chosen), ask.site))
        super().answer(ask, row, now)


class AsksForNoSecret(Ownership):
    def is_its_owners(self, source: str, message: m.Message) -> bool:
        return True


SecretsAreNotChecked = site_with(ownership=AsksForNoSecret)
"""Whoever knows the id of a request may speak about it."""


class BelievesWhoPassesOn(Ownership):
    def as_passed_on(self, dispatch: m.Dispatch) -> m.Dispatch | None:
        key = self.registers.secret(dispatch.register)
        secret = proofs.of_request(key, dispatch.rid)
        return msgspec.structs.replace(dispatch, secret=secret)


AnybodyPassesOn = site_with(ownership=BelievesWhoPassesOn)
"""A visit that a near site passes on needs no proof that a broker has sent it."""


class AnswersAnyPeer(InDoubtResolver):
    def takes_part(self, ask: m.PeerAsk, stake: Any) -> bool:
        return True


AnybodyTakesPart = site_with(in_doubt=AnswersAnyPeer)
"""Whoever asks as a peer is answered, and an attempt refused for it."""


MUTATIONS_OF_BELIEF: Final = (
    Mutation("sites are not judged", world_with(coordinator=HearsAnything), HOSTILE_SITE),
    Mutation("any cost is paid", world_with(coordinator=PaysAnything), HOSTILE_OWNER),
    Mutation("only sites know limits", world_with(coordinator=AsksForNoLimit), HOSTILE_OWNER),
    Mutation("an inquiry needs no part", world_with(coordinator=TellsWhoeverAsks), HOSTILE_SITE),
    Mutation(
        "secrets are not checked", world_with(participant=SecretsAreNotChecked), HOSTILE_BROKER
    ),
    Mutation("anybody passes visits on", world_with(participant=AnybodyPassesOn), HOSTILE_NEAR),
    Mutation("anybody takes part", world_with(participant=AnybodyTakesPart), HOSTILE_NEAR),
)
