"""No clock makes a site forget: what is locked stays, whatever its clock shows, for as long as you like.

What is long over is forgotten in the end, and its brokers are not asked about it for ever.
"""

from __future__ import annotations

import pytest
from tests.protocol_support import (
    COORDS,
    DAY,
    HERE,
    LONG_MS,
    T0,
    Site,
    abort,
    lock,
    peer_ask,
    rid,
    visit,
    vote,
    want,
)

from kalends.contract import messages as m
from kalends.contract import owner_calls
from kalends.resource_servers.participation.memory.retention import (
    ASKED_MAX,
    COLLECT_EVERY_MS,
    COLLECT_SOME_MS,
    LOOKED_AT_MAX,
)

ONE = want("one", 0, 60)
DAY_MS = DAY * 1_000
WRONG_MS = [30 * 3_600_000, 40 * DAY_MS, 4_000 * DAY_MS]


def forget(site: Site, number: int) -> None:
    site.receive(m.Forget(rid=rid(number), att=1))


def run(site: Site, ms: int, *, restart: bool = False) -> None:
    """Time passes; with `restart` the site starts again every day."""
    for _ in range(0, ms, DAY_MS):
        if restart:
            site.restart()
        site.advance(DAY_MS)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("wrong_ms", WRONG_MS)
def test_a_clock_that_is_ahead_for_a_while_ends_nothing_that_is_locked(
    site: Site, wrong_ms: int, restart: bool
) -> None:
    late = want("one", 30 * DAY, 30 * DAY + 60)
    lock(site, 1, late)
    forget(site, 1)
    site.wrong_ms = wrong_ms
    run(site, 6 * DAY_MS, restart=restart)
    site.wrong_ms = 0
    site.restart()
    assert site.states(1) == ["locked"]
    assert site.horizon_s == 0
    assert site.free("one", 30 * DAY, 30 * DAY + 60) == 0


@pytest.mark.parametrize("restart", [False, True])
def test_a_clock_that_is_ahead_for_months_ends_nothing_that_is_locked(restart: bool) -> None:
    site = Site()
    lock(site, 1, want("one", 300 * DAY, 300 * DAY + 60))
    forget(site, 1)
    site.wrong_ms = 4_000 * DAY_MS
    run(site, 90 * DAY_MS, restart=restart)
    assert site.states(1) == ["locked"]


def test_the_clocks_of_all_servers_may_be_ahead_for_days(site: Site) -> None:
    lock(site, 1, want("one", 30 * DAY, 30 * DAY + 60))
    forget(site, 1)
    site.wrong_ms = site.broker_wrong_ms = 4_000 * DAY_MS
    run(site, 6 * DAY_MS, restart=True)
    site.wrong_ms = site.broker_wrong_ms = 0
    run(site, LONG_MS)
    assert site.states(1) == ["locked"]


def test_once_the_clock_is_right_again_time_that_it_had_passed_can_be_booked(site: Site) -> None:
    site.receive(vote(1, want("one", 2 * DAY, 2 * DAY + 60)))
    site.receive(abort(1))
    site.wrong_ms = site.broker_wrong_ms = 4_000 * DAY_MS
    run(site, 3 * LONG_MS)
    assert site.horizon_s < T0 + 100 * DAY
    site.wrong_ms = site.broker_wrong_ms = 0
    run(site, LONG_MS)
    later = (site.ms // DAY_MS + 2) * DAY
    visited = site.answer(vote(2, want("one", later, later + 60)))
    assert isinstance(visited, m.Visited)
    assert visited.vote == "yes"


def test_time_that_was_closed_by_clocks_ahead_for_weeks_is_opened_again(site: Site) -> None:
    site.wrong_ms = site.broker_wrong_ms = 400 * DAY_MS
    run(site, LONG_MS)
    late = want("one", 420 * DAY, 420 * DAY + 60)
    site.receive(vote(1, late))
    site.receive(abort(1))
    run(site, 12 * DAY_MS)
    assert site.horizon_s == late.end, "forgotten, for all clocks said so for weeks"
    site.wrong_ms = site.broker_wrong_ms = 0
    run(site, LONG_MS)
    assert site.horizon_s <= site.now.wall_s
    site.ms = 400 * DAY_MS
    visited = site.answer(vote(2, late))
    assert isinstance(visited, m.Visited)
    assert visited.vote == "yes"


def test_what_is_locked_is_kept_while_its_brokers_clock_says_that_it_is_not_over() -> None:
    site = Site()
    lock(site, 1, ONE)
    forget(site, 1)
    site.broker_wrong_ms = -400 * DAY_MS
    run(site, LONG_MS)
    assert site.states(1) == ["locked"]
    site.broker_wrong_ms = 0
    run(site, DAY_MS)
    assert site.stake(1) is None


def test_what_is_locked_is_kept_while_no_broker_has_said_what_time_it_is(site: Site) -> None:
    lock(site, 1, ONE)
    forget(site, 1)
    site.broker_wrong_ms = None
    run(site, LONG_MS)
    assert site.states(1) == ["locked"]


def test_a_refusal_and_a_cancelled_claim_close_no_time_by_the_sites_clock_alone(site: Site) -> None:
    lock(site, 1, ONE)
    forget(site, 1)
    site.receive(m.Cancel(rid=rid(1), att=1))
    site.receive(peer_ask(2))
    site.wrong_ms = 4_000 * DAY_MS
    run(site, 2 * LONG_MS)
    assert site.horizon_s < T0 + 100 * DAY
    site.wrong_ms = 0
    run(site, 2 * LONG_MS)
    assert site.stake(1) is None
    assert site.stake(2) is None


def test_another_registers_clock_says_nothing_about_what_is_locked(site: Site) -> None:
    ours, theirs = "a" * 32, "b" * 32
    site.receive(m.Welcome(register=ours), source="broker")
    site.receive(m.Welcome(register=theirs), source="other")
    lock(site, 1, ONE)
    forget(site, 1)
    site.broker_wrong_ms = None
    site.participant.retention.heard_clock("other", (T0 + 4_000 * DAY) * 1_000, site.now)
    run(site, LONG_MS)
    assert site.states(1) == ["locked"]
    site.participant.retention.heard_clock("broker", site.now.wall_ms, site.now)
    site.advance(COLLECT_EVERY_MS)
    assert site.stake(1) is None


def test_a_reclaim_outlives_a_clock_that_is_ahead(site: Site) -> None:
    reclaim = owner_calls.Reclaim(
        key="the-key-1", resource=f"{HERE}/one", start=T0 + 20 * DAY, end=T0 + 21 * DAY
    )
    site.call(lambda participant, now: site.reminders.reclaim(reclaim, now))
    site.wrong_ms = 4_000 * DAY_MS
    run(site, 6 * DAY_MS)
    site.wrong_ms = 0
    assert [each.key for each in site.reminders.views()] == ["the-key-1"]
    run(site, 2 * LONG_MS)
    assert site.reminders.views() == ()


# Forgetting is durable, and nobody is asked for ever


def test_what_all_have_locked_is_known_after_a_restart_and_nobody_is_asked(site: Site) -> None:
    lock(site, 1, ONE)
    forget(site, 1)
    site.restart()
    assert not site.advance(LONG_MS).sends
    assert site.stake(1) is None


def test_a_broker_that_says_it_is_done_is_asked_once(site: Site) -> None:
    lock(site, 1, ONE)
    stake = site.stake(1)
    assert stake is not None
    asked = site.advance(LONG_MS).sends
    assert [(each.to, type(each.message)) for each in asked] == [(COORDS[0], m.Inquire)]
    done = m.Outcome(rid=rid(1), att=1, outcome="commit", chosen=stake.chosen or {}, done=True)
    site.receive(done)
    assert site.states(1) == ["locked"]
    site.restart()
    assert not site.advance(COLLECT_EVERY_MS).sends
    assert site.stake(1) is None


def test_brokers_that_do_not_answer_are_asked_less_and_less_often(site: Site) -> None:
    lock(site, 1, ONE)
    asked = len(site.advance(LONG_MS).sends)
    for _ in range(24 * 60):
        asked += len(site.advance(COLLECT_EVERY_MS).sends)
    assert asked < 14
    assert site.states(1) == ["locked"]


def test_only_so_many_are_asked_about_at_once(site: Site) -> None:
    count = ASKED_MAX + 5
    for number in range(count):
        lock(site, number, want("pool", 60 * number, 60 * number + 60))
    assert len(site.advance(LONG_MS).sends) == ASKED_MAX
    assert len(site.advance(COLLECT_EVERY_MS).sends) == 5


def test_a_hold_is_not_forgotten_because_its_broker_says_so(site: Site) -> None:
    site.receive(visit(1, ONE))
    forget(site, 1)
    assert site.states(1) == ["held"]
    assert not site.forgotten


def test_a_step_drops_only_so_many_and_the_next_ones_follow_soon(site: Site) -> None:
    count = LOOKED_AT_MAX + 5
    for number in range(count):
        lock(site, number, want("pool", 60 * number, 60 * number + 60))
        forget(site, number)
    site.restart()
    site.advance(LONG_MS)
    assert len(site.participant.book.stakes) == 5
    site.advance(COLLECT_SOME_MS)
    assert not site.participant.book.stakes
    site.participant.check()
