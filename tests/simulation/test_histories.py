"""Every schedule's histories are linearizable and its lines in order; what breaks either is caught."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kalends.contract import messages as m
from kalends.resource_servers.participation.admission import Admission
from kalends.resource_servers.participation.contention.room import FreeRoom
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.participant import Participant
from kalends.resource_servers.participation.this_site import FenceNumbers
from tests import effort
from tests.simulation.climates import RIVALS
from tests.simulation.histories import Numbers, Recorder
from tests.simulation.line_oracle import LineOracle
from tests.simulation.mutations import world_with
from tests.simulation.mutations_of_waiting import (
    LostWakeUp,
    NobodyAnswersRecalls,
    NothingIsTakenBack,
)
from tests.simulation.schedule import run
from tests.simulation.shipped_site import site_with
from tests.simulation.workload import CROWD, Size
from tests.simulation.world import World

SEEDS = range(10_000, 10_000 + effort.examples(24))


def listened(
    seed: int, world_type: type[World] = World, size: Size | None = None, hard: float = 1.0
) -> tuple[Recorder, list[str], LineOracle, list[str]]:
    """A schedule's recorder and oracle of waiting, and what each complains of."""
    recorder, oracle = Recorder(), LineOracle({})

    def prepare(world: World) -> None:
        recorder.attach(world)
        oracle.attach(world)

    run(seed, world_type=world_type, size=size, prepare=prepare, hard=hard)
    return recorder, recorder.finish(), oracle, oracle.finish()


def test_all_histories_are_linearizable_and_all_lines_in_order() -> None:
    numbers = Numbers()
    grants = recalls = waits = 0
    wrong = []
    for seed in SEEDS:
        recorder, unlawful, oracle, disorder = listened(seed, size=CROWD if seed % 2 else None)
        numbers += recorder.numbers
        grants, recalls, waits = (
            grants + oracle.grants,
            recalls + oracle.recalls,
            waits + oracle.waits,
        )
        wrong += [f"seed {seed}: {text}" for text in (*unlawful, *disorder)]
    effort.operations["slots in histories"] += numbers.operations
    assert wrong == []
    assert numbers.unknown == 0
    assert numbers.operations > 60 * len(SEEDS)
    assert min(grants, recalls, waits) > len(SEEDS) // 10


def test_listening_changes_nothing() -> None:
    for seed in (3, 11):
        recorder = Recorder()
        assert run(seed, prepare=recorder.attach).trace_hash == run(seed).trace_hash
        assert recorder.numbers.operations == 0
        recorder.finish()
        first = recorder.numbers
        recorder.finish()
        assert recorder.numbers == first
        assert first.operations > 0


# Sites gone wrong


class FallingNumbers(FenceNumbers):
    def new(self) -> int:
        return super().new() ^ ((1 << 32) - 1)


NumbersGoBack = site_with(numbers=FallingNumbers)
"""Fence numbers go down."""


class OutboxOfOldLooks(ParticipantOutbox):
    def send(self, to: str, message: m.Message) -> None:
        if isinstance(message, m.View):
            known = self.__dict__.setdefault("looked", {})
            key = tuple((view.resource, view.until) for view in message.views)
            message = replace(message, views=known.setdefault(key, message.views))
        super().send(to, message)


OldLooks = site_with(outbox=OutboxOfOldLooks)
"""A look is answered as the first one was."""


class HoldsBriefly(Admission):
    def take(self, source: str, before: Any, visit: m.Visit, now: Any, *events: Any) -> Any:
        short = replace(visit, hold_ms=visit.hold_ms // 20)
        return super().take(source, before, short, now, *events)


ShortHolds = site_with(admission=HoldsBriefly)
"""Holds run out after a twentieth of their time."""


class KeepsNothing(Admission):
    def kept_from(self, stake: Any) -> str:
        return ""


NothingIsKept = site_with(admission=KeepsNothing)
"""Room is whoever's that comes."""


class RoomForTheYoungest(FreeRoom):
    def order_of(self, principal: Any, stamp: int, rid: str, wanted: Any) -> Any:
        return -stamp, rid


YoungestFirst = site_with(room=RoomForTheYoungest)
"""The line is the wrong way round."""


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(NumbersGoBack, id="NumbersGoBack"),
        pytest.param(OldLooks, id="OldLooks"),
        pytest.param(ShortHolds, id="ShortHolds"),
    ],
)
def test_the_recorder_catches(broken: Callable[..., Participant]) -> None:
    world_type = world_with(participant=broken)
    assert any(listened(seed, world_type, CROWD)[1] for seed in range(1, 60))


@pytest.mark.parametrize(
    ("broken", "shown_by"),
    [
        pytest.param(NothingIsKept, 19, id="NothingIsKept"),
        pytest.param(YoungestFirst, 3, id="YoungestFirst"),
        pytest.param(LostWakeUp, 71, id="LostWakeUp"),
    ],
)
def test_the_oracle_of_waiting_catches(broken: Callable[..., Participant], shown_by: int) -> None:
    """The seed that has shown it is tried first, and others only where it shows it no more."""
    world_type = world_with(participant=broken)
    seeds = (shown_by, *range(1, 120))
    assert any(listened(seed, world_type, CROWD, hard=0.3)[3] for seed in seeds)


def test_the_oracle_of_waiting_catches_recalls_that_site_and_broker_ignore() -> None:
    world_type = world_with(participant=NothingIsTakenBack, coordinator=NobodyAnswersRecalls)
    complaints = (
        complaint
        for seed in range(1, 120)
        for complaint in listened(seed, world_type, RIVALS, hard=0.3)[3]
    )
    assert any("lets it be held" in complaint for complaint in complaints)
