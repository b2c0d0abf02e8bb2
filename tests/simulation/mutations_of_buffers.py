"""Ways to get owners' buffers wrong, put into the shipped code at run time."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from msgspec import structs

from kalends.resource_servers.participation.admission import Admission
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.participant import Participant
from tests.simulation.climates import OWNERS_KEEP_BUFFERS
from tests.simulation.mutations import Mutation, world_with
from tests.simulation.shipped_site import SHIPPED, site_with


class ForgetsBuffers(Participant):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        for name, calendar in self.book.calendars.items():
            for each in calendar.calendar.listing(0, 1 << 34):
                if each.gap_s:
                    calendar.release(each.id)
                    short = structs.replace(each, end=each.end - each.gap_s, gap_s=0)
                    self.book.calendars[name].book(short)
        self.book.check = lambda: None  # type: ignore[method-assign]


BuffersEndWithTheProcess = partial(ForgetsBuffers, **SHIPPED.keywords)
"""After a restart, what stood before has no buffer."""


class ChangesHaveNone(Admission):
    def stake_for(self, source: str, before: Any, visit: Any) -> Any:
        stake = super().stake_for(source, before, visit)
        for claim in stake.claims if visit.replaces else ():
            claim.gap_s = 0
        return stake


ChangesHaveNoBuffer = site_with(admission=ChangesHaveNone)
"""Whoever extends or moves what is reserved does so without a buffer."""


class LocksWithout(Claims):
    def lock(self, stake: Any, chosen: Any, mine: Any, now_s: int) -> None:
        for claim in stake.claims:
            claim.gap_s = 0
        self.book.vacate(stake)
        self.book.occupy(stake, "prepared", None)
        super().lock(stake, chosen, mine, now_s)


LockedWithoutBuffers = site_with(claims=LocksWithout)
"""The buffer is there until the reservation is confirmed."""


MUTATIONS_OF_BUFFERS: Final = (
    Mutation(
        "buffers end with the process",
        world_with(participant=BuffersEndWithTheProcess),
        OWNERS_KEEP_BUFFERS,
    ),
    Mutation(
        "changes have no buffer", world_with(participant=ChangesHaveNoBuffer), OWNERS_KEEP_BUFFERS
    ),
    Mutation(
        "what is locked has no buffer",
        world_with(participant=LockedWithoutBuffers),
        OWNERS_KEEP_BUFFERS,
    ),
)
