"""Ways to get owners' limits wrong, put into the shipped code at run time."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kalends.resource_servers.participation.admission import Admission
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.participant import Participant, PartTypes
from tests.simulation.climates import OWNERS_LIMIT, WEEKS_PASS, RetainedBriefly
from tests.simulation.mutations import Mutation, world_with
from tests.simulation.shipped_site import SHIPPED, site_with


class LooksWhenHeld(Admission):
    def why_not_promise(self, stake: Any, named: Any, now: Any) -> Any:
        counts = self.book.usage.refusals
        self.book.usage.refusals = lambda *_, **__: []  # type: ignore[method-assign]
        try:
            return super().why_not_promise(stake, named, now)
        finally:
            self.book.usage.refusals = counts  # type: ignore[method-assign]


LimitedWhenHeldOnly = site_with(admission=LooksWhenHeld)
"""What was within the limits when it was held is promised, whatever was promised meanwhile."""


class CountsFromNothing(Participant):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        for rid in [*self.book.usage._noted]:
            self.book.usage.drop(rid)
        self.book.check = lambda: None  # type: ignore[method-assign]


CountsAgainFromNothing = partial(CountsFromNothing, **SHIPPED.keywords)
"""After a restart, nothing that is reserved counts against the limits."""


class LimitsNewOnes(Admission):
    def why_not(self, source: str, visit: Any, now: Any) -> Any:
        refusals = super().why_not(source, visit, now)
        return _of_rules(refusals) if visit.replaces else refusals

    def why_not_promise(self, stake: Any, named: Any, now: Any) -> Any:
        refusals = super().why_not_promise(stake, named, now)
        return _of_rules(refusals) if stake.replaces else refusals


ChangesAreNotLimited = site_with(admission=LimitsNewOnes)
"""Whoever extends what is reserved, or moves it, may have as much as there is."""


def _of_rules(refusals: Any) -> Any:
    return tuple(each for each in refusals if each.code not in ("limit", "share"))


class HasRoomForMore(Admission):
    def why_not(self, source: str, visit: Any, now: Any) -> Any:
        return _of_rules(super().why_not(source, visit, now))


LimitedWhenPromisedOnly = site_with(admission=HasRoomForMore)
"""Any number may be held."""


class GivesUsedTimeBack(Claims):
    def _keep_used(self, stake: Any, now_s: int, instead: Any = ()) -> None:
        pass


UsedTimeIsGivenBack = site_with(retention=RetainedBriefly, claims=GivesUsedTimeBack)
"""Whoever cancels or moves what has run has not used it."""


class DropsUsedTime(Participant):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        for stake in self.book._used():
            self.book.usage.drop(stake.rid)
        self.book.check = lambda: None  # type: ignore[method-assign]


UsedTimeIsNotRestored = partial(
    DropsUsedTime, **SHIPPED.keywords, types=PartTypes(retention=RetainedBriefly)
)
"""After a restart, what was used of what was cancelled or moved counts no more."""


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
