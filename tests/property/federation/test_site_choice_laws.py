"""Who is asked, whatever is known of the sites and whatever is drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests import effort

from kalends.core.intervals import Moment
from kalends.federation.draws import Draw, draw_of
from kalends.federation.experience import Experience
from kalends.federation.site_choice import SAMPLED_PER_ASKED, Bidder, whom_to_ask

NOW = Moment(1_000, 1_800_000_000_000)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Bidder], list[Bidder], Experience]:
    """Sites that could bid, homes, and what is known: some rest, some have told a wait."""
    random = Random(draw(st.integers(0, 2**32)))
    count = draw(st.sampled_from((0, 1, 2, 3, 5, 9, 40, 150)))
    known = Experience()
    bidders = []
    for number in range(count):
        site = f"s{number:03}"
        liked_s, runs_s = random.choice((0.0, 0.0, 300.0)), random.choice((0.0, 600.0, 900.0))
        bidders.append(Bidder(site, (f"{site}/box",), liked_s, runs_s))
        nature = random.random()
        if nature < 0.2:
            known.silent(site, random.random(), NOW)
        elif nature < 0.7:
            known.bid(site, 80.0, random.choice((0.0, 100.0, random.uniform(0, 9_000))), NOW)
    homes = [bidder for bidder in bidders if random.random() < 2 / max(count, 3)]
    if draw(st.booleans()):
        bidders = [bidder for bidder in bidders if bidder not in homes]
    bidders += random.choices(bidders, k=random.randint(0, 2)) if bidders else []
    return bidders, homes, known


def slow_choice(
    bidders: Sequence[Bidder], count: int, known: Experience, draw: Draw, homes: Sequence[Bidder]
) -> list[Bidder]:
    """The whole list is shuffled, then filtered, then sorted."""
    order = list(bidders)
    for place in range(len(order)):
        other = place + draw(len(order) - place)
        order[place], order[other] = order[other], order[place]
    resting = {bidder.site for bidder in (*bidders, *homes) if known.rests(bidder.site, NOW)}
    home_sites = {home.site for home in homes}
    active = [each for each in order if each.site not in resting | home_sites]
    active = list(dict.fromkeys(active))
    chosen = [home for home in homes if home.site not in resting]
    if len(chosen) >= count or not active:
        return chosen
    by_chance, sample = active[0], active[1 : 1 + SAMPLED_PER_ASKED * count]
    sample.sort(
        key=lambda each: known.expected_wait_s(each.site, NOW) + each.runs_s - each.preference_s
    )
    return [*chosen, *sample[: count - len(chosen) - 1], by_chance]


@given(worlds(), st.integers(1, 32), st.integers(0, 2**32))
def test_a_choice_is_that_of_a_twin_that_shuffles_all(
    world: tuple[list[Bidder], list[Bidder], Experience], count: int, seed: int
) -> None:
    bidders, homes, known = world
    rid = f"request {seed}"
    chosen = whom_to_ask(bidders, count, known, draw_of(rid, 1), NOW, homes)
    assert chosen == slow_choice(bidders, count, known, draw_of(rid, 1), homes)
    effort.steps["choices of sites"] += 1


@given(worlds(), st.integers(1, 32), st.integers(0, 2**32))
def test_as_many_as_are_wanted_or_can_be_had_each_once_and_nobody_who_rests(
    world: tuple[list[Bidder], list[Bidder], Experience], count: int, seed: int
) -> None:
    bidders, homes, known = world
    chosen = whom_to_ask(bidders, count, known, draw_of(f"request {seed}", 1), NOW, homes)
    sites = [bidder.site for bidder in chosen]
    eligible = {each.site for each in (*bidders, *homes) if not known.rests(each.site, NOW)}
    active_homes = {home.site for home in homes} & eligible
    assert len(set(sites)) == len(sites)
    assert active_homes <= set(sites) <= eligible
    assert len(sites) == max(len(active_homes), min(count, len(eligible)))


@given(worlds(), st.integers(1, 32), st.integers(0, 2**32))
def test_none_that_was_left_out_of_a_small_world_is_better_than_one_of_the_best(
    world: tuple[list[Bidder], list[Bidder], Experience], count: int, seed: int
) -> None:
    bidders, homes, known = world
    if len(bidders) > SAMPLED_PER_ASKED * count:
        return
    chosen = whom_to_ask(bidders, count, known, draw_of(f"request {seed}", 1), NOW, homes)
    home_sites = {home.site for home in homes}
    *best, _ = [each for each in chosen if each.site not in home_sites] or [None]

    def expected_s(bidder: Bidder) -> float:
        return known.expected_wait_s(bidder.site, NOW) + bidder.runs_s - bidder.preference_s

    asked = {each.site for each in chosen}
    left_out = [
        expected_s(each)
        for each in bidders
        if each.site not in asked | home_sites and not known.rests(each.site, NOW)
    ]
    assert all(expected_s(each) <= min(left_out) for each in best if each and left_out)


def test_over_many_requests_everybody_is_the_one_by_chance_equally_often() -> None:
    known = Experience()
    bidders = [Bidder(f"s{number:02}", ()) for number in range(25)]
    for number, bidder in enumerate(bidders):
        known.bid(bidder.site, 80.0, 100.0 * number, NOW)
    rounds = 400 * len(bidders)
    last = Counter(
        whom_to_ask(bidders, 3, known, draw_of(f"request {n}", n % 3), NOW)[-1].site
        for n in range(rounds)
    )
    squares = sum((last[bidder.site] - 400) ** 2 / 400 for bidder in bidders)
    # Chi squared of 24 degrees of freedom: above 51.2 once in a thousand; these draws are always the same.
    assert squares < 51.2
