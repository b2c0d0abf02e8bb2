"""Ways to get waiting wrong, put into the shipped code at run time: the auditor must catch each."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from kalends.broker.coordination.voting.negotiation import Negotiation
from kalends.broker.replica.leases import CLOCK_AHEAD
from kalends.contract import messages as m
from kalends.resource_servers.participation.claim_handler import ClaimHandler
from kalends.resource_servers.participation.contention.waiting_list_offers import WaitingLists
from kalends.resource_servers.participation.contention.wound_wait import WoundWait
from tests.simulation.climates import FAIR, LISTS, SLOW_LINES
from tests.simulation.mutations import Mutation, world_with
from tests.simulation.nodes import BrokerNode
from tests.simulation.shipped_site import site_with


class RecallsNobody(WoundWait):
    def recall_for(self, place: Any, now: Any) -> None:
        pass


NoRecall = site_with(wound_wait=RecallsNobody)
"""Those who are older wait, too, until those who are younger have what they want."""


class NobodyAnswersRecalls(Negotiation):
    def give_back(self, site: str, rid: str, att: int, left_ms: int, now: Any) -> None:
        pass


class TakesNothingBack(WoundWait):
    def end_recalls(self, now: Any) -> None:
        self._recalls.clear()


NothingIsTakenBack = site_with(wound_wait=TakesNothingBack)
"""The end of a recall is forgotten."""


class CountsStaleRecalls(WoundWait):
    def end_recalls(self, now: Any) -> None:
        due = [each for each in self._recalls if each[0] <= now.monotonic_ms]
        for until_ms, rid in due:
            if rid in self.holders:
                self.holders[rid].recall_until_ms = until_ms
        super().end_recalls(now)


StaleRecallsCount = site_with(wound_wait=CountsStaleRecalls)
"""The end of a recall takes back whatever its holder holds by then."""


class ServesNobody(WoundWait):
    def serve(self, now: Any, times: Any) -> None:
        pass


LostWakeUp = site_with(wound_wait=ServesNobody)
"""What comes free is not given to those who wait in line."""


class OffersWhatCameFree(WaitingLists):
    def room_in(self, listed: Any, freed: Any) -> Any:
        resource, start, end = freed
        enough = any(
            min(end, want.end) - max(start, want.start) >= listed.wish.length_s
            for want in listed.windows[resource]
        )
        return super().room_in(listed, freed) if enough else None


NothingBeyondWhatCameFree = site_with(lists=OffersWhatCameFree)
"""A list offers what came free to those alone for whom that is enough."""


class BrokersLeaseEnds(BrokerNode):
    """A replica beats when it starts, and never again."""

    def _store_beat(self, wall_ms: int) -> None:
        if self._bound:
            self._bound = max(self.logical.value, wall_ms) + CLOCK_AHEAD
        else:
            super()._store_beat(wall_ms)


class SkipsARow(BrokerNode):
    """Of what others have left behind, the last row is not taken over."""

    def left_behind(self, found: Any) -> Any:
        return super().left_behind(found)[:-1]


class KeepsWhoIsGone(WaitingLists):
    def wait(self, source: str, wish: m.Await, now: Any) -> None:
        super().wait(source, wish, now)
        listed = self.listed.leave(wish.rid)
        if listed is not None:
            listed.lease_ms = 1 << 60
            self.listed.put(listed)


ListedForEver = site_with(lists=KeepsWhoIsGone)
"""A list keeps whoever does not come back."""


class WaitsForPromises(ClaimHandler):
    def visit(self, source: str, visit: m.Visit, now: Any, *, may_recall: bool = True) -> None:
        super().visit(source, replace(visit, queue=True), now, may_recall=may_recall)


VotesWait = site_with(claim_handler=WaitsForPromises)
"""A promise is waited for, by one who has promises elsewhere."""


MUTATIONS_OF_WAITING: Final = (
    Mutation("no recall", world_with(participant=NoRecall), FAIR),
    Mutation(
        "recalls are ignored",
        world_with(participant=NothingIsTakenBack, coordinator=NobodyAnswersRecalls),
        FAIR,
    ),
    Mutation(
        "a stale recall ends a newer hold",
        world_with(participant=StaleRecallsCount),
        SLOW_LINES,
    ),
    Mutation("a lost wake-up", world_with(participant=LostWakeUp), FAIR),
    Mutation(
        "a list ignores what was free before",
        world_with(participant=NothingBeyondWhatCameFree),
        LISTS,
    ),
    Mutation("a lease is never renewed", world_with(broker=BrokersLeaseEnds), FAIR),
    Mutation("a row is skipped", world_with(broker=SkipsARow)),
    Mutation("a list forgets nobody", world_with(participant=ListedForEver)),
    Mutation("votes wait", world_with(participant=VotesWait)),
)
