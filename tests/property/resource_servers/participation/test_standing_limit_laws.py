"""Limits on what stands: counted at the site when it promises, and no longer once a reservation is over."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort
from tests.protocol_support import (
    ANN,
    BOB,
    DAY,
    HERE,
    T0,
    Site,
    commit,
    lock,
    prepare,
    rid,
    visit,
    vote,
    want,
)

from kalends.calendars import Limit, UsageShare
from kalends.contract import messages as m
from kalends.core.errors import RefusalCode
from kalends.core.principals import Principal

POOL = f"{HERE}/pool"
EACH, TOGETHER = 2, 900
LIMITS = (
    Limit("few", "everyone", locked_max=EACH),
    Limit("all", "everyone", together=True, locked_unit_s=TOGETHER),
)
USERS = (ANN, BOB, Principal("cy"))

asks = st.tuples(
    st.integers(0, len(USERS) - 1), st.integers(0, 20), st.integers(1, 5), st.integers(1, 3)
)
steps = st.lists(st.one_of(asks, st.integers(0, 40), st.integers(-40, -1)), max_size=25)


@given(steps)
@settings(max_examples=effort.examples(100), deadline=None)
def test_a_promise_is_given_exactly_where_what_stands_leaves_room_for_one_more(
    steps: list[tuple[int, int, int, int] | int],
) -> None:
    """An ask is a user, a start and a length in minutes, and units; a number lets time pass, or cancels."""
    site = Site(owners_limits=LIMITS)
    site.capacities["pool"] = 1_000
    site.ms += DAY * 1_000
    site.restart()
    standing: dict[int, tuple[str, int, int]] = {}
    for number, step in enumerate(steps, 1):
        now_s = site.now.wall_s
        if isinstance(step, int) and step >= 0:
            site.advance(10_000 * step)
        elif isinstance(step, int):
            if -step in standing:
                del standing[-step]
                site.receive(m.Cancel(rid=rid(-step), att=1))
        else:
            user, first, minutes, units = step
            start = max(first * 60, now_s - T0 - DAY + 60)
            wanted = want("pool", start, start + minutes * 60, units)
            there = [each for each in standing.values() if each[1] > now_s]
            fits = (
                sum(name == USERS[user].user for name, _, _ in there) < EACH
                and sum(unit_s for _, _, unit_s in there) + minutes * 60 * units <= TOGETHER
            )
            asked = site.answer(visit(number, wanted, mode="vote", principal=USERS[user]))
            assert isinstance(asked, m.Visited)
            assert (asked.vote == "yes") == fits
            assert fits or {each.code for each in asked.refusals} == {RefusalCode.LIMIT}
            if fits:
                site.receive(commit(number, *(slot.hold_id for slot in asked.held)))
                standing[number] = (USERS[user].user, wanted.end, minutes * 60 * units)
        if number % 7 == 0:
            site.restart()
        effort.steps["limits on what stands"] += 1


def test_of_two_holds_that_would_be_one_too_many_the_second_is_not_promised() -> None:
    site = Site(owners_limits=(Limit("one", "everyone", locked_max=1),))
    for number, local in ((1, "pool"), (2, "pool")):
        site.receive(visit(number, want(local, 0, 60)))
    assert [voted(site, number) for number in (1, 2)] == ["yes", "no"]


def voted(site: Site, number: int) -> str:
    answer = site.answer(prepare(number, *site.ids(number)))
    assert isinstance(answer, m.Voted)
    return answer.vote


def test_a_change_counts_once_and_who_has_as_many_as_may_be_can_still_move_one() -> None:
    site = Site(owners_limits=(Limit("one", "everyone", locked_max=1),))
    lock(site, 1, want("pool", 0, 60))
    assert refusals(site, vote(2, want("pool", 60, 120))) == [RefusalCode.LIMIT]
    lock(site, 3, want("pool", 60, 120), replaces=1)
    assert refusals(site, vote(4, want("pool", 0, 60))) == [RefusalCode.LIMIT]


def refusals(site: Site, asked: m.Visit) -> list[str]:
    answer = site.answer(asked)
    assert isinstance(answer, m.Visited)
    return [each.code for each in answer.refusals]


def test_each_slot_of_a_reservation_counts_until_it_is_over_itself() -> None:
    hours = Limit("time", "everyone", locked_unit_s=7_200)
    for limit in (Limit("two", "everyone", locked_max=2), hours):
        site = Site(owners_limits=(limit,))
        one, two = want("pool", 60, 3_660), want("pool", 7_200, 10_800)
        three = want("pool", 14_400, 18_000)
        assert refusals(site, vote(1, one, two, three)) == [RefusalCode.LIMIT]
        lock(site, 2, one, two)
        assert refusals(site, vote(3, three)) == [RefusalCode.LIMIT]
        site.advance((DAY + 3_660) * 1_000)
        lock(site, 4, three)
        assert refusals(site, vote(5, want("pool", 20_000, 23_600))) == [RefusalCode.LIMIT]


def test_who_asks_is_told_how_much_stands_of_what_may() -> None:
    site = Site(owners_limits=LIMITS)
    lock(site, 1, want("pool", 0, 60, 3))
    told = site.participant.book.rules_for(ANN, POOL, site.now.wall_s)
    assert "few (everyone): each at most 2 reservations not over" in told
    assert "few: 1 of 2 reservations are yours" in told
    assert "all: 0.05 of 0.25 unit-hours are taken" in told
    others = site.participant.book.rules_for(BOB, POOL, site.now.wall_s)
    assert "few: 0 of 2 reservations are yours" in others


def test_who_asks_is_told_how_much_of_each_week_is_used() -> None:
    site = Site(owners_limits=(Limit("week", "everyone", share=UsageShare(unit_s=1800)),))
    assert "week: 0 of 0.5 unit-hours in the week from " in described(site)[0]
    lock(site, 1, want("pool", 0, 60, 3))
    lock(site, 2, want("pool", 7 * DAY, 7 * DAY + 360, 3))
    present, later = described(site)
    assert present.startswith("week: 0.05 of 0.5 unit-hours in the week from Mon 2027-01-11 00:00")
    assert later.startswith("week: 0.3 of 0.5 unit-hours in the week from Mon 2027-01-18 00:00")


def described(site: Site) -> list[str]:
    return site.participant.book.usage.described(ANN, POOL, site.now.wall_s)
