"""Ways to get forgetting wrong, put into the shipped code at run time: too early, or never."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from kalends.broker.coordination.voting.outcome_inquiries import OutcomeInquiries
from kalends.contract import messages as m
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.memory.retention import Retention
from kalends.resource_servers.participation.participant import Participant, PartTypes
from tests.simulation.climates import (
    SITE_CUT_OFF,
    SLOTS_END,
    WEEKS_PASS,
    WILD_CLOCKS,
    DroppedSoon,
    RetainedBriefly,
)
from tests.simulation.mutations import Mutation, world_with
from tests.simulation.nodes import SiteNode
from tests.simulation.shipped_site import SHIPPED, site_with


class AllForgettable(RetainedBriefly):
    def collect(self, now: Any) -> None:
        self._forgettable |= set(self.book.stakes)
        super().collect(now)


DroppedBeforeForget = site_with(retention=AllForgettable)
"""A commit record goes as soon as its slots have ended, whoever is still in doubt."""


class RetainedByClock(Retention):
    def over_s(self, now: Any) -> int:
        return int(now.wall_s) - self.keep_after_end_s

    def is_agreed(self, stake: Any, now: Any) -> bool:
        return True


CollectedByClock = site_with(retention=RetainedByClock)
"""Whatever has ended by the site's clock, and nothing else, is dropped."""


class JumpsAreFollowed(SiteNode):
    """The site believes its clock at once, whoever contradicts it."""

    def now(self) -> Moment:
        return self.clock.moment()


class NeverAsks(RetainedBriefly):
    def ask_whether_done(self, waiting: Any, now: Any) -> None:
        pass


NobodyAsksWhetherDone = site_with(retention=NeverAsks)
"""Whoever has missed the word to forget a commit keeps it."""


class NeverSaysDone(OutcomeInquiries):
    """Whoever asks is told of a commit, but not that all sites have locked it."""

    def answer(self, ask: Any, row: Any, now: Any) -> None:
        super().answer(ask, row, now)
        sends = self.outbox.effects.sends
        for number, send in enumerate(sends):
            if isinstance(send.message, m.Outcome):
                sends[number] = send._replace(message=replace(send.message, done=False))


class KeepsRefusals(RetainedBriefly):
    def is_agreed(self, stake: Any, now: Any) -> bool:
        return stake.decided and super().is_agreed(stake, now)


RefusalsAreKept = site_with(retention=KeepsRefusals)
"""Of what a site has refused it keeps the record, whenever its time was."""


class ForgetsAtTheEnd(RetainedBriefly):
    keep_after_end_s = 0


RetainedUntilTheEnd = site_with(retention=ForgetsAtTheEnd)
"""A record goes as soon as its slots have ended."""


class CountsNothing(Participant):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.book.usage.counted_until = lambda rid: 0  # type: ignore[method-assign]


ForgetsWhatCounts = partial(
    CountsNothing, **SHIPPED.keywords, types=PartTypes(retention=RetainedBriefly)
)
"""A record goes in its time, whatever limit of its week still counts it."""


MUTATIONS_OF_FORGETTING: Final = (
    Mutation(
        "records are dropped before Forget",
        world_with(participant=DroppedBeforeForget),
        SITE_CUT_OFF,
    ),
    Mutation(
        "stakes are collected by the clock",
        world_with(participant=CollectedByClock, site=JumpsAreFollowed),
        WILD_CLOCKS,
    ),
    Mutation(
        "nobody asks whether a commit is done",
        world_with(participant=NobodyAsksWhetherDone),
        SLOTS_END,
    ),
    Mutation(
        "who asks is never told that a commit is done",
        world_with(participant=DroppedSoon, coordinator=NeverSaysDone),
        SLOTS_END,
    ),
    Mutation(
        "retention ends with the slots", world_with(participant=RetainedUntilTheEnd), WEEKS_PASS
    ),
    Mutation(
        "what counts in its week is dropped", world_with(participant=ForgetsWhatCounts), WEEKS_PASS
    ),
    Mutation("refusals are kept", world_with(participant=RefusalsAreKept), SLOTS_END),
)
