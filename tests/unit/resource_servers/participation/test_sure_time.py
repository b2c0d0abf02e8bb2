"""The bound on the time that has passed: never above the truth because a clock is, and it catches up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.core.intervals import Moment
from kalends.resource_servers.participation.memory.sure_time import (
    STORE_EVERY_MS,
    WINDOW_MS,
    SureTime,
    TimePassed,
)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
TRUE_MS = 1_800_000_000_000
"""The true time when each test begins."""


class World:
    """A site with a clock that is `wrong_ms` ahead; what it stores survives its restarts."""

    def __init__(self, wrong_ms: int = 0) -> None:
        self.true_ms = TRUE_MS
        self.wrong_ms = wrong_ms
        self.stored = TimePassed()
        self.restart()

    @property
    def now(self) -> Moment:
        return Moment(self.true_ms - self.base_ms, self.true_ms + self.wrong_ms)

    def restart(self, down_ms: int = 0) -> None:
        self.true_ms += down_ms
        self.base_ms = self.true_ms
        self.time = SureTime(self.stored, self.now)

    def run(self, ms: int, step_ms: int = HOUR_MS) -> None:
        for _ in range(0, ms, step_ms):
            self.true_ms += step_ms
            self.time.advance(self.now)
            self.stored = self.time.to_store() or self.stored

    @property
    def behind_ms(self) -> int:
        """How far the bound is below the true time."""
        return self.true_ms - self.time.sure_s * 1_000


@pytest.fixture
def world() -> World:
    return World()


def test_a_site_whose_clock_is_right_knows_the_time_after_one_window(world: World) -> None:
    world.run(WINDOW_MS - HOUR_MS)
    assert world.time.sure_s < TRUE_MS // 2_000
    world.run(DAY_MS)
    assert world.behind_ms < 1_000


@pytest.mark.parametrize("ahead_ms", [30 * HOUR_MS, 40 * DAY_MS, 4_000 * DAY_MS])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_that_is_ahead_for_less_than_a_window_raises_nothing(
    world: World, ahead_ms: int, restarted: bool
) -> None:
    world.run(3 * WINDOW_MS)
    world.wrong_ms = ahead_ms
    for _ in range(6):
        world.run(DAY_MS)
        if restarted:
            world.restart()
        assert world.behind_ms >= 0
    world.wrong_ms = 0
    world.run(2 * WINDOW_MS)
    assert 0 <= world.behind_ms < 1_000


def test_one_look_at_the_right_time_begins_the_window_anew(world: World) -> None:
    for _ in range(20):
        world.wrong_ms = 4_000 * DAY_MS
        world.run(WINDOW_MS - DAY_MS)
        world.wrong_ms = 0
        world.run(HOUR_MS)
        assert world.behind_ms >= 0


def test_a_store_that_was_made_while_the_clock_was_ahead_does_not_believe_it() -> None:
    world = World(40 * DAY_MS)
    world.run(6 * DAY_MS)
    world.wrong_ms = 0
    world.run(WINDOW_MS * 3)
    assert 0 <= world.behind_ms < 1_000


@pytest.mark.parametrize("behind_ms", [HOUR_MS, 20_000 * DAY_MS])
def test_what_a_clock_lost_while_it_was_behind_is_caught_up(world: World, behind_ms: int) -> None:
    world.run(2 * WINDOW_MS)
    world.wrong_ms = -behind_ms
    world.run(HOUR_MS)
    world.wrong_ms = 0
    assert world.behind_ms >= behind_ms
    world.run(2 * WINDOW_MS)
    assert 0 <= world.behind_ms < 1_000


def test_a_bound_lags_by_what_the_site_was_down_and_catches_up(world: World) -> None:
    world.run(2 * WINDOW_MS)
    world.restart(down_ms=30 * DAY_MS)
    assert world.behind_ms >= 30 * DAY_MS
    world.run(2 * WINDOW_MS)
    assert 0 <= world.behind_ms < 1_000


def test_what_is_stored_is_never_above_what_was_known_and_seldom_written(world: World) -> None:
    written = 0
    for _ in range(24 * 60):
        world.true_ms += 60_000
        world.time.advance(world.now)
        passed = world.time.to_store()
        if passed is not None:
            written += 1
            world.stored = passed
    assert written <= DAY_MS // STORE_EVERY_MS + 1
    world.wrong_ms = -DAY_MS
    world.time.advance(world.now)
    assert world.time.to_store() is not None


steps = st.lists(
    st.tuples(
        st.sampled_from([0, 0, -DAY_MS, 30 * HOUR_MS, 40 * DAY_MS, 4_000 * DAY_MS]),
        st.integers(1, 40),
        st.sampled_from([-1, -1, 0, HOUR_MS, 30 * DAY_MS]),
    ),
    max_size=30,
)


@given(steps)
def test_no_history_of_a_clock_that_is_right_now_and_then_leads_beyond_the_truth(
    history: list[tuple[int, int, int]],
) -> None:
    world = World()
    for wrong_ms, hours, down_ms in history:
        world.wrong_ms = wrong_ms
        world.run(hours * HOUR_MS)
        assert world.behind_ms >= 0
        world.wrong_ms = 0
        world.run(HOUR_MS)
        if down_ms >= 0:
            world.restart(down_ms)
        assert world.behind_ms >= 0
