"""Jobs that ask start once, or one start after the other, whatever is lost and restored: part of the soak."""

from __future__ import annotations

import pytest

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.register.sqlite import request_writes
from kalends.contract.calls import PlacedEnd
from tests.simulation.start_world import SITES, StartReplica, StartSite, StartWorld, soak

SCHEDULES = 300


def test_no_job_starts_twice_and_all_start_that_no_copy_has_forgotten() -> None:
    tally, wrong = soak(SCHEDULES, 1)
    assert not wrong
    assert min(tally["moved"], tally["registers restored"]) > SCHEDULES // 10
    assert tally["begun again"] > SCHEDULES // 20


class AsksAfterwards(StartSite):
    """It asks, and begins meanwhile."""

    def comes_up(self, rid: str) -> None:
        super().comes_up(rid)
        self.begin(rid)


class AnswersTooEarly(StartReplica):
    """It answers by what the register would say, before that is stored."""

    def store(self, permit: r.Permit) -> None:
        self.world.connection.execute("begin")
        (result,) = request_writes.apply(self.world.connection, [permit])
        self.world.connection.execute("rollback")
        self.tell(permit, result)
        self.later(500, request_writes.apply, self.world.connection, [permit])


class Unproved(StartReplica):
    """It asks the register for whoever asks, though that may have forgotten starts."""

    def __init__(self, world: StartWorld, name: str) -> None:
        super().__init__(world, name)
        self.answers.certain = lambda: True


class EndsInWordsOnly(StartSite):
    """It says that a program has ended as soon as it was told to."""

    def leave(self, rid: str) -> None:
        super().leave(rid)
        if rid in self.begun - self.ended:
            self.untold[rid] = PlacedEnd(at=self.world.now.wall_s, end="killed")


class Impatient(StartReplica):
    """It takes every site for lost."""

    def __init__(self, world: StartWorld, name: str) -> None:
        super().__init__(world, name)
        self.answers.lost = lambda now: SITES


class ForgetsEnds(StartReplica):
    """It answers sites that have told an end, and writes nothing down."""

    def note(self, site: StartSite, rid: str, end: PlacedEnd) -> None:
        self.world.carry(site.noted, rid)


class LateAsker(StartWorld):
    site_type = AsksAfterwards


class EarlyAnswer(StartWorld):
    replica_type = AnswersTooEarly


class NeverUncertain(StartWorld):
    replica_type = Unproved


class EarlyEnds(StartWorld):
    site_type = EndsInWordsOnly


class NeverPatient(StartWorld):
    replica_type = Impatient


class EndsForgotten(StartWorld):
    replica_type = ForgetsEnds


class ForgetsStarts(StartWorld):
    """A register that was put back takes it that nothing has started which it does not know of."""

    def _compare(self) -> None:
        starts = self.connection.execute("select rid, places from start where site = ''").fetchall()
        super()._compare()
        self.connection.executemany(
            "insert or replace into start (rid, site, places) values (?, '', ?)", starts
        )


@pytest.mark.parametrize(
    "broken", [LateAsker, EarlyAnswer, EarlyEnds, NeverPatient, NeverUncertain, ForgetsStarts]
)
def test_a_broken_permit_is_found(broken: type[StartWorld]) -> None:
    _, wrong = soak(SCHEDULES, 1, broken)
    assert any("has begun at" in each for each in wrong)


def test_an_end_that_nobody_writes_down_is_found() -> None:
    _, wrong = soak(SCHEDULES, 1, EndsForgotten)
    assert any("has never come to its end" in each for each in wrong)
