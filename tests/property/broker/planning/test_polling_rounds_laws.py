"""What a poll promises whatever sites answer and in whatever order; and what is learned from answers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.broker.planning.planner import Free
from kalends.broker.planning.polling import site_statistics as o
from kalends.broker.planning.polling.poll_terms import PollTerm
from kalends.broker.planning.polling.polls import Poll
from kalends.broker.planning.polling.site_statistics import Odds
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import split_resource
from kalends.core.spans import Stage

START = 1_800_000_000
FREE = ((START, START + 60, 1),)


def wanted(term: int, needed: int, names: list[str], *, named: bool = False) -> PollTerm:
    return PollTerm(term, needed, Stage(0, 60, 1), START, dict.fromkeys(names, 1), named)


def site_of(name: str) -> str:
    return split_resource(name)[0]


@st.composite
def terms(draw: st.DrawFn) -> list[PollTerm]:
    sites = [f"s{number:02}" for number in range(draw(st.sampled_from((24, 16, 12, 8, 5, 2, 1))))]
    names = [f"{site}/{n}" for site in sites for n in range(draw(st.integers(1, 3)))]
    found = []
    for term in range(draw(st.integers(1, 2))):
        few = st.lists(st.sampled_from(names), min_size=1, unique=True)
        of_term = draw(st.one_of(st.just(names), few))
        needed = draw(st.integers(1, min(4, len(of_term))))
        found.append(wanted(term, needed, of_term))
    if draw(st.booleans()):
        found.append(wanted(len(found), 1, ["named/one"], named=True))
    return found


def served(asked: list[PollTerm], free: Free) -> bool:
    return all(
        sum(each.serves(name, free[name]) for name in each.grains.keys() & free.keys())
        >= each.needed
        for each in asked
    )


class Sites:
    """Answers in an order that hypothesis draws, some never."""

    def __init__(self, asked: list[PollTerm], data: st.DataObject) -> None:
        self.data = data
        names = sorted({name for each in asked for name in each.grains})
        share = data.draw(st.sampled_from((0, 1, 3, 5)), "busy of 5")
        self.truth: Mapping[str, tuple[tuple[int, int, int], ...]] = {
            name: () if data.draw(st.integers(0, 4)) < share else FREE for name in names
        }
        self.free: dict[str, tuple[tuple[int, int, int], ...]] = {}
        self.owing: dict[str, set[str]] = {}

    def ask(self, names: tuple[str, ...]) -> None:
        for name in names:
            self.owing.setdefault(site_of(name), set()).add(name)

    def answer(self) -> None:
        site = self.data.draw(st.sampled_from(sorted(self.owing)), "answers")
        names = self.owing.pop(site)
        if self.data.draw(st.integers(0, 9)):
            self.free |= {name: self.truth[name] for name in names}


@settings(max_examples=effort.examples(80), deadline=None)
@given(terms(), st.booleans(), st.data())
def test_a_poll_ends_with_enough_or_with_everybody_asked(
    asked: list[PollTerm], hurried: bool, data: st.DataObject
) -> None:
    def enough(free: Free) -> bool:
        return served(asked, free)

    odds = Odds()
    poll = Poll(asked, odds, enough, hurried=hurried)
    sites = Sites(asked, data)
    everybody = sites.truth.keys()
    new = poll.first()
    so_far = set(new)
    assert len(new) == len(so_far)
    assert {name for each in asked if each.named for name in each.grains} <= so_far
    assert hurried or so_far == everybody
    rounds = 1
    sites.ask(new)
    while not poll.over:
        sites.answer()
        before = {site_of(name) for name in so_far}
        new = poll.more(sites.free, sites.owing.keys())
        assert not so_far & set(new)
        so_far |= set(new)
        rounds += bool(new)
        if len(asked) == 1 and new and so_far < everybody:
            assert len({site_of(name) for name in so_far}) >= 2 * len(before)
        sites.ask(new)
        assert poll.over == (not sites.owing or (hurried and enough(sites.free)))
    assert enough(sites.free) or so_far == everybody
    if served(asked, sites.truth) and sites.free.keys() == so_far:
        assert enough(sites.free)
    assert rounds <= len(asked) * (2 + math.log2(len(everybody)))
    effort.steps["rounds of polls"] += rounds


def test_what_suffices_for_each_term_is_not_enough_without_a_plan() -> None:
    names = [f"s{number:02}/one" for number in range(12)]
    poll = Poll([wanted(0, 1, names)], Odds(), lambda free: len(free) >= 12)
    asked = poll.first()
    answered: dict[str, tuple[tuple[int, int, int], ...]] = {}
    while len(answered) < 12:
        assert not poll.over
        answered |= dict.fromkeys(asked, FREE)
        asked = poll.more(answered, ())
    assert poll.over


@settings(max_examples=effort.examples(80), deadline=None)
@given(terms())
def test_a_poll_of_the_same_is_the_same(asked: list[PollTerm]) -> None:
    polls = [Poll(asked, Odds(), lambda free: False) for _ in range(2)]
    assert polls[0].first() == polls[1].first()


NOTES = st.lists(
    st.tuples(
        st.sampled_from(("one", "two", "three")),
        st.integers(0, 400 * 86_400),
        st.booleans(),
        st.floats(allow_nan=False),
    ),
    max_size=60,
)


def learned(notes: list[tuple[str, int, bool, float]]) -> Odds:
    odds = Odds()
    for site, at_s, taken, ms in notes:
        odds.note(site, at_s, taken)
        odds.note_delay(site, ms)
    return odds


@settings(max_examples=effort.examples(80), deadline=None)
@given(NOTES, st.integers(0, 400 * 86_400))
def test_what_is_learned_is_a_chance_and_a_delay_whatever_was_seen(
    notes: list[tuple[str, int, bool, float]], at_s: int
) -> None:
    odds = learned(notes)
    for site in ("one", "two", "never seen"):
        assert o.BUSY_STEP <= odds.busy(site, at_s) <= 1 - o.BUSY_STEP
        delay = odds.delay(site)
        assert 0 < delay.median_ms <= 2 * o.DELAY_MS_MAX
        assert o.SIGMA_MIN <= delay.sigma <= o.SIGMA_MAX


@settings(max_examples=effort.examples(80), deadline=None)
@given(NOTES, NOTES)
def test_who_goes_on_from_a_snapshot_learns_the_same(
    before: list[tuple[str, int, bool, float]], after: list[tuple[str, int, bool, float]]
) -> None:
    whole = learned(before + after)
    halves = Odds(learned(before).snapshot())
    for site, at_s, taken, ms in after:
        halves.note(site, at_s, taken)
        halves.note_delay(site, ms)
    assert halves.snapshot() == whole.snapshot()


@settings(max_examples=effort.examples(30), deadline=None)
@given(st.integers(0, 10), st.integers(0, 20))
def test_a_chance_that_stays_is_found(hours: int, of_twenty: int) -> None:
    odds = Odds()
    for number in range(1_000):
        odds.note("one", hours * 3_600, number * 7 % 20 < of_twenty)
    assert odds.busy("one", hours * 3_600) == pytest.approx(of_twenty / 20, abs=0.15)
    for _ in range(300):
        odds.note("one", hours * 3_600, True)
    assert odds.busy("one", hours * 3_600) >= 0.75


def test_an_hour_of_the_week_is_told_from_others_once_there_is_evidence() -> None:
    odds = Odds()
    monday, night = 4 * 86_400 + 10 * 3_600, 4 * 86_400 + 3 * 3_600
    odds.note("one", monday, True)
    once = odds.busy("one", monday)
    assert o.BUSY_PRIOR < once <= 0.5
    assert odds.busy("one", night) == pytest.approx(once, abs=0.1)
    for week in range(60):
        odds.note("one", monday + week * 7 * 86_400, True)
        odds.note("one", night + week * 7 * 86_400, False)
    assert odds.busy("one", monday + 100 * 7 * 86_400) > 0.75
    assert odds.busy("one", night + 1_800) < 0.25
    assert odds.busy("one", monday + 6 * 3_600) == pytest.approx(0.5, abs=0.1)


def test_what_is_seen_later_outweighs_what_was_seen_before() -> None:
    odds = Odds()
    for _ in range(500):
        odds.note("one", START, True)
        odds.note_delay("one", 10.0)
    for _ in range(int(o.SITE_HALF_LIFE)):
        odds.note("one", START + 12 * 3_600, False)
    assert 0.4 < odds.busy("one", START + 6 * 3_600) < 0.6
    for _ in range(500):
        odds.note_delay("one", 400.0)
    assert odds.delay("one").median_ms == pytest.approx(400.0, rel=0.2)


def test_delays_come_near_those_that_were_measured() -> None:
    odds = Odds()
    for number in range(4_000):
        deviation = math.sqrt(2) * math.cos(2 * math.pi * (number * 0.618 % 1))
        odds.note_delay("one", 200.0 * math.exp(0.3 * deviation))
    delay = odds.delay("one")
    assert delay.median_ms == pytest.approx(200.0, rel=0.2)
    assert delay.sigma == pytest.approx(0.3, abs=0.11)
    assert odds.delay("another").median_ms == pytest.approx(o.MEDIAN_PRIOR_MS, rel=0.06)
    assert odds.delay("another").sigma == pytest.approx(o.SIGMA_PRIOR)


def test_only_so_many_sites_are_remembered_those_heard_of_last() -> None:
    odds = Odds()
    for number in range(o.SITES_MAX + 10):
        odds.note(f"s{number}", START, True)
        odds.note_delay("s0", 5.0)
    assert len(odds.snapshot()) == o.SITES_MAX
    assert {"s0", f"s{o.SITES_MAX + 9}"} <= odds.snapshot().keys()
    assert "s1" not in odds.snapshot()
    assert odds.snapshot()["s0"]["delays"]["seen"] > 40
    for week_hour in range(10_000):
        odds.note("s0", week_hour * 3_600, True)
    assert len(odds.snapshot()["s0"]["hours"]) == o.WEEK_HOURS


@pytest.mark.parametrize("broken", [{"one": 1}, {"one": {"share": {"seen": "x"}}}, {1: {}}])
def test_what_is_no_snapshot_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="record of site statistics"):
        Odds(broken)
