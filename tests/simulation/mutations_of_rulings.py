"""Ways to get the decisions of owners' scripts wrong, put into the shipped code at run time."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kalends.resource_servers.participation.rulings.rulings import OwnersScripts, Ruling
from tests.simulation.climates import OWNERS_DECIDE
from tests.simulation.mutations import Mutation, world_with
from tests.simulation.owners import Guarded


class HearsNoNo(OwnersScripts):
    def refusals(self, rid: str, principal: Any, wants: Any) -> Any:
        return ()


class ChecksNoChoice(OwnersScripts):
    def why_not_slot(self, rid: str, principal: Any, want: Any) -> Any:
        return None

    def why_not_promise(self, stake: Any, named: Any) -> Any:
        return ()


class AnswersForAnySlot(OwnersScripts):
    def _ruling(self, rid: str, user: str, want: Any) -> Ruling | None:
        made = [each for each in self._made.get(rid, {}).values() if each.user == user]
        return made[0] if made else None


class AllowsWhatFails(OwnersScripts):
    def _decision(self, group: Any, script: Any, outcome: Any) -> Any:
        decision = super()._decision(group, script, outcome)
        return decision._replace(answer="yes") if outcome.code != "ok" else decision


class PromisesWithoutAWord(OwnersScripts):
    def asks_owner(self, rid: str, principal: Any, want: Any) -> bool:
        return False


class ForgetsTheLimit(OwnersScripts):
    def _decision(self, group: Any, script: Any, outcome: Any) -> Any:
        return super()._decision(group, script, outcome)._replace(units_max=0)


def _broken(kind: type[OwnersScripts]) -> Any:
    return world_with(participant=partial(Guarded, rulings=kind))


MUTATIONS_OF_RULINGS: Final = (
    Mutation("a no of a script counts for nothing", _broken(HearsNoNo), OWNERS_DECIDE),
    Mutation("what an agent chose needs no script", _broken(ChecksNoChoice), OWNERS_DECIDE),
    Mutation("a script's answer is good for any slot", _broken(AnswersForAnySlot), OWNERS_DECIDE),
    Mutation("a script that fails says yes", _broken(AllowsWhatFails), OWNERS_DECIDE),
    Mutation("a script asks the owner in vain", _broken(PromisesWithoutAWord), OWNERS_DECIDE),
    Mutation("a script's limit of units is forgotten", _broken(ForgetsTheLimit), OWNERS_DECIDE),
)
