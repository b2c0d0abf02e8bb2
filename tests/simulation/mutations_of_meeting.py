"""Brokers that believe a hub too much, or make too little of what it answers: the judge must catch each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

from msgspec.structs import replace

from kalends.broker.coordination.agents.agent_dispatch import AgentDispatch
from kalends.contract.common_times import report_in
from tests.simulation.climates import LYING_HUB, NEAR_SITES
from tests.simulation.mutations import Mutation, world_with


class BelievesHubs(AgentDispatch):
    """What a hub answers for others needs no proof."""

    def _proved(self, case: Any, tour: Any, common: Any) -> Any:
        reports = [
            report_in(common, number, tour.asks[part.site])
            for number, part in enumerate(common.sites)
        ]
        return [report for report in reports if report is not None] if None not in reports else []


class BelievesWhatIsPassedOn(AgentDispatch):
    """A report that comes through another site needs no proof."""

    def _is_sealed(self, case: Any, report: Any) -> bool:
        return not report.refusals


class PlacesAreLost(AgentDispatch):
    """Slots at common starts are ranked among themselves, not among all that a site holds."""

    def _perhaps_complete(self, case: Any, tour: Any, now: Any) -> None:
        for site, part in tour.common.items():
            held = tuple(
                replace(hold, hold_id=part.first + rank)
                for rank, hold in enumerate(tour.reports[site].held)
            )
            tour.reports[site] = replace(tour.reports[site], held=held)
        super()._perhaps_complete(case, tour, now)


class EverythingIsMeantToMeet(AgentDispatch):
    """A start is left out though sites elsewhere could serve what is lacking near the hub."""

    def _dispatch(self, case: Any, tour: Any, site: str) -> None:
        outbox, needs = self.outbox, tuple((need.term, need.wanted) for need in tour.needs)

        def send(to: str, message: Any) -> None:
            outbox.send(to, replace(message, meet=needs) if message.near else message)

        self.outbox = SimpleNamespace(send=send)  # type: ignore[assignment]
        super()._dispatch(case, tour, site)
        self.outbox = outbox


MUTATIONS_OF_MEETING: Final = (
    Mutation("hubs are believed", world_with(coordinator=BelievesHubs), LYING_HUB),
    Mutation(
        "what is passed on is believed", world_with(coordinator=BelievesWhatIsPassedOn), LYING_HUB
    ),
    Mutation("places in preference are lost", world_with(coordinator=PlacesAreLost), NEAR_SITES),
    Mutation(
        "hubs leave out too much", world_with(coordinator=EverythingIsMeantToMeet), NEAR_SITES
    ),
)
