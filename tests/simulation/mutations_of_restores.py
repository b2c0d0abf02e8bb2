"""Ways to get restored stores wrong, put into the shipped code at run time."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from kalends.contract import messages as m
from kalends.resource_servers.participation.claims.claims import Claims
from tests.simulation.climates import STORES_RESTORED
from tests.simulation.mutations import Mutation, world_with
from tests.simulation.nodes import SiteNode
from tests.simulation.shipped_site import site_with


class BelievesItsOlderPast(SiteNode):
    """The site looks at nothing that others remember of it."""

    def boot(self) -> None:
        super().boot()
        recovery = self.participant.recovery
        meet = recovery.meet

        def believing(source: str, welcome: m.Welcome, position: int, now: Any) -> None:
            meet(source, replace(welcome, remembered=()), position, now)

        recovery.meet = believing  # type: ignore[method-assign]


class ForgetsAgain(Claims):
    def lock_again(self, stake: Any, before: Any, cost: Any, now_s: int) -> str:
        outbox, self.outbox = self.outbox, type(self.outbox)()
        full = super().lock_again(stake, before, cost, now_s)
        self.outbox = outbox
        return full


RelocksInMemory = site_with(claims=ForgetsAgain)
"""What is locked again does not survive a crash."""


MUTATIONS_OF_RESTORES: Final = (
    Mutation("an older past is believed", world_with(site=BelievesItsOlderPast), STORES_RESTORED),
    Mutation(
        "what is locked again is not stored",
        world_with(participant=RelocksInMemory),
        STORES_RESTORED,
    ),
)
