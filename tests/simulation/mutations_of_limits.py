"""Ways to get owners' limits wrong, put into the shipped code at run time."""

from __future__ import annotations

from typing import Any, Final

from kalends.resource_servers.participation.admission import Admission
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.participant import Participant
from tests.simulation.climates import OWNERS_LIMIT, WEEKS_PASS, DroppedSoon
from tests.simulation.mutations import Mutation, world_with


class LooksWhenHeld(Admission):
    def why_not_promise(self, stake: Any, named: Any, now: Any) -> Any:
        counts = self.book._usage.refusals
        self.book._usage.refusals = lambda *_, **__: []  # type: ignore[method-assign]
        try:
            return super().why_not_promise(stake, named, now)
        finally:
            self.book._usage.refusals = counts  # type: ignore[method-assign]


class LimitedWhenHeldOnly(Participant):
    """What was within the limits when it was held is promised, whatever was promised meanwhile."""

    admission_type = LooksWhenHeld


class CountsAgainFromNothing(Participant):
    """After a restart, nothing that is reserved counts against the limits."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        for rid in [*self.book._usage._noted]:
            self.book._usage.drop(rid)
        self.book.check = lambda: None  # type: ignore[method-assign]


class LimitsNewOnes(Admission):
    def why_not(self, source: str, visit: Any, now: Any) -> Any:
        refusals = super().why_not(source, visit, now)
        return _of_rules(refusals) if visit.replaces else refusals

    def why_not_promise(self, stake: Any, named: Any, now: Any) -> Any:
        refusals = super().why_not_promise(stake, named, now)
        return _of_rules(refusals) if stake.replaces else refusals


class ChangesAreNotLimited(Participant):
    """Whoever extends what is reserved, or moves it, may have as much as there is."""

    admission_type = LimitsNewOnes


def _of_rules(refusals: Any) -> Any:
    return tuple(each for each in refusals if each.code not in ("limit", "share"))


class HasRoomForMore(Admission):
    def why_not(self, source: str, visit: Any, now: Any) -> Any:
        return _of_rules(super().why_not(source, visit, now))


class LimitedWhenPromisedOnly(Participant):
    """Any number may be held."""

    admission_type = HasRoomForMore


class GivesUsedTimeBack(Claims):
    def _keep_used(self, stake: Any, now_s: int, instead: Any = ()) -> None:
        pass


class UsedTimeIsGivenBack(DroppedSoon):
    """Whoever cancels or moves what has run has not used it."""

    claims_type = GivesUsedTimeBack


class UsedTimeIsNotRestored(DroppedSoon):
    """After a restart, what was used of what was cancelled or moved counts no more."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        for stake in self.book._used():
            self.book._usage.drop(stake.rid)
        self.book.check = lambda: None  # type: ignore[method-assign]


MUTATIONS_OF_LIMITS: Final = (
    Mutation(
        "limits count when it is held only",
        world_with(participant=LimitedWhenHeldOnly),
        OWNERS_LIMIT,
    ),
    Mutation(
        "limits are forgotten by a restart",
        world_with(participant=CountsAgainFromNothing),
        OWNERS_LIMIT,
    ),
    Mutation("used time is given back", world_with(participant=UsedTimeIsGivenBack), WEEKS_PASS),
    Mutation(
        "used time is not restored", world_with(participant=UsedTimeIsNotRestored), WEEKS_PASS
    ),
    Mutation(
        "any number may be held", world_with(participant=LimitedWhenPromisedOnly), OWNERS_LIMIT
    ),
)
