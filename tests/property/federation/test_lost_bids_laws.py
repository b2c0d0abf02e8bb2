"""Bids that a site spares: each only for what the same broker has told, in this life, and what still holds.

A twin without rows or counters goes through all that was ever told. It must agree with the record at each bid
of a schedule, and disagree within some seeds with each record that is wrong.
"""

from __future__ import annotations

import random
from typing import Final, NamedTuple

import pytest
from tests import effort
from tests.simulation.overriding import idle

from kalends.core.intervals import Moment
from kalends.federation.lost_bids import FAR_S, IN_A_ROW, ONE_IN, TOLD_MS_MAX, LostBids

SEEDS: Final = effort.examples(200)
SEEDS_MAX: Final = 500
BROKERS: Final = ("npaci", "alliance", "grey")
RUNS_S: Final = ((20, 120, 500), (120, 500, 4_000), (4_000, 40_000))
"""How long winners run: shorter than any loss counts, or longer."""

BEHIND_S: Final = (FAR_S, FAR_S + 1, 10 * FAR_S)


class Told(NamedTuple):
    """What became of a bid: lost by so much to a job that runs for so long, or won (-1)."""

    broker: str
    behind_s: int
    runs_s: int
    at_ms: int


class Twin:
    """All that was told in this life, and at how many bids one might have been spared since."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.hopeless: dict[str, int] = {}

    def take(self, told: Told) -> None:
        self.told.append(told)
        if told.behind_s < FAR_S:
            self.hopeless[told.broker] = 0

    def spares(self, broker: str, now_ms: int) -> bool:
        own = [each for each in self.told if each.broker == broker]
        since = max((n for n, each in enumerate(own) if each.behind_s < FAR_S), default=-1)
        last = own[since + 1 :][-IN_A_ROW:]
        holds = [now_ms < each.at_ms + min(1_000 * each.runs_s, TOLD_MS_MAX) for each in last]
        if sum(holds) < IN_A_ROW:
            return False
        self.hopeless[broker] = self.hopeless.get(broker, 0) + 1
        return self.hopeless[broker] % ONE_IN != 0


def difference(seed: int, record: type[LostBids] = LostBids) -> str:
    """Return where the record and its twin differ in the schedule of `seed`; "" if they never do."""
    draw = random.Random(f"lost bids {seed}")
    bids, twin, now_ms = record(), Twin(), 0
    pause_ms = draw.choice((2_000, 30_000))
    runs_s_of_all = draw.choice(RUNS_S)
    often_won = draw.choice((0.02, 0.2))
    for _ in range(draw.randrange(50, 200)):
        now_ms += draw.randrange(pause_ms)
        broker, now = draw.choice(BROKERS), Moment(now_ms, 10**12 + now_ms)
        what = draw.random()
        if what < 0.01:
            bids, twin = record(), Twin()  # A restart of the site forgets all of it.
        elif what < 0.4:
            spared, rightly = bool(bids.why_spared(broker, now)), twin.spares(broker, now_ms)
            if spared != rightly:
                return f"seed {seed}: at {now_ms} a bid for {broker} is {'' if spared else 'not '}spared"
        elif what < 0.4 + often_won:
            bids.won(broker)
            twin.take(Told(broker, -1, 0, now_ms))
        else:
            behind_s = FAR_S - 1 if draw.random() < often_won else draw.choice(BEHIND_S)
            runs_s = draw.choice(runs_s_of_all)
            bids.lost(broker, behind_s, runs_s, now)
            twin.take(Told(broker, behind_s, runs_s, now_ms))
        bids.check()
    return ""


def test_a_bid_is_spared_by_what_its_own_broker_has_told_and_still_holds() -> None:
    assert [found for seed in range(1, SEEDS + 1) if (found := difference(seed))] == []


class KeptPastTheirLives(LostBids):
    """A loss counts as long as any may, also when the job that has won is over."""

    def lost(self, broker: str, behind_s: int, runs_s: int, now: Moment) -> None:
        super().lost(broker, behind_s, TOLD_MS_MAX, now)


class KeptForEver(LostBids):
    """A loss counts until the job that has won is over, however long it runs."""

    def lost(self, broker: str, behind_s: int, runs_s: int, now: Moment) -> None:
        beyond_ms = max(0, 1_000 * runs_s - TOLD_MS_MAX)
        super().lost(broker, behind_s, runs_s, Moment(now.monotonic_ms + beyond_ms, now.wall_ms))


class OfAnotherBidder(LostBids):
    """What any broker has told counts for all of them."""

    def lost(self, broker: str, behind_s: int, runs_s: int, now: Moment) -> None:
        super().lost("all", behind_s, runs_s, now)

    def won(self, broker: str) -> None:
        super().won("all")

    def why_spared(self, broker: str, now: Moment) -> str:
        return super().why_spared("all", now)


class WonForAnother(LostBids):
    """A bid that has won for one broker ends the losses to all others."""

    def won(self, broker: str) -> None:
        self._rows.clear()


class NearLossesCount(LostBids):
    """A bid that was lost by little is as hopeless as others."""

    def lost(self, broker: str, behind_s: int, runs_s: int, now: Moment) -> None:
        super().lost(broker, max(behind_s, FAR_S), runs_s, now)


@pytest.mark.parametrize(
    ("broken", "seed"),
    [
        (KeptPastTheirLives, 8),
        (KeptForEver, 9),
        (OfAnotherBidder, 2),
        (WonForAnother, 2),
        (NearLossesCount, 2),
    ],
)
def test_a_wrong_record_differs(broken: type[LostBids], seed: int) -> None:
    """Each with a seed that shows it; it is tried first."""
    assert any(difference(each, broken) for each in (seed, *range(1, SEEDS_MAX)))


def test_a_broken_record_puts_itself_in_the_place_of_something() -> None:
    for broken in LostBids.__subclasses__():
        assert idle(broken) == []
