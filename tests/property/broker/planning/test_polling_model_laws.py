"""The model of polling against slow obvious twins: every outcome, every order, every set of sites."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.broker.planning.polling.counts import Prospect, free_chances
from kalends.broker.planning.polling.delays import Delay, Discrete, Lognormal
from kalends.broker.planning.polling.model import PollCost, best, retried_costs, round_costs
from kalends.broker.planning.polling.poll_order import choose, orders

CHANCES = st.sampled_from((0.02, 0.25, 0.5, 0.75, 0.98))
TIMES = st.sampled_from((1.0, 2.0, 5.0, 8.0))


@st.composite
def discrete(draw: st.DrawFn) -> Discrete:
    early, late = draw(TIMES), draw(TIMES)
    if early == late:
        return Discrete(((early, 1.0),))
    share = draw(CHANCES)
    return Discrete(((min(early, late), share), (max(early, late), 1 - share)))


@st.composite
def prospects(
    draw: st.DrawFn, delays: st.SearchStrategy[Delay], sites_max: int, resources_max: int
) -> list[Prospect]:
    count = draw(st.integers(1, sites_max))
    return [
        Prospect(f"s{number}", draw(st.integers(1, resources_max)), draw(CHANCES), draw(delays))
        for number in range(count)
    ]


LOGNORMAL = st.builds(
    Lognormal, st.sampled_from((10.0, 40.0, 80.0, 300.0)), st.sampled_from((0.1, 0.6, 1.0))
)


class Outcome:
    """What every site would answer, and when; with what chance."""

    def __init__(self, chance: float, answers: Sequence[tuple[float, int]]) -> None:
        self.chance = chance
        self._answers = sorted(answers)
        self.found = sum(free for _, free in answers)

    def over_ms(self, needed: int) -> float:
        """When the answers are enough, or all are in: answer by answer."""
        available = 0
        for at_ms, free in self._answers:
            available += free
            if available >= needed:
                return at_ms
        return self._answers[-1][0]


def outcomes(polled: Sequence[Prospect]) -> Iterator[Outcome]:
    for drawn in product(*(answers_of(prospect) for prospect in polled)):
        yield Outcome(math.prod(chance for chance, _ in drawn), [answer for _, answer in drawn])


def answers_of(prospect: Prospect) -> list[tuple[float, tuple[float, int]]]:
    assert isinstance(prospect.delay, Discrete)
    frees = free_chances(prospect, prospect.resources)
    return [
        (float(frees[free]) * share, (at_ms, free))
        for at_ms, share in prospect.delay.atoms
        for free in range(prospect.resources + 1)
    ]


def round_ms(
    sites: Sequence[Prospect], asked: int, until: int, missing: int, message_ms: float
) -> float:
    polled = sites[asked:until]
    total = message_ms * sum(not prospect.asked for prospect in polled)
    for outcome in outcomes(polled):
        total += outcome.chance * outcome.over_ms(missing)
        if outcome.found < missing:
            total += outcome.chance * least_ms(sites, until, missing - outcome.found, message_ms)
    return total


def least_ms(sites: Sequence[Prospect], asked: int, missing: int, message_ms: float) -> float:
    """The least cost of going on, over all sizes of all further rounds."""
    if asked == len(sites):
        return 0.0
    return min(
        round_ms(sites, asked, until, missing, message_ms)
        for until in range(asked + 1, len(sites) + 1)
        if until == len(sites)
        or (until >= 2 * asked and sum(s.resources for s in sites[asked:until]) >= missing)
    )


@settings(max_examples=effort.examples(60), deadline=None)
@given(prospects(discrete(), 4, 2), st.integers(1, 4), st.sampled_from((0.0, 0.5, 3.0)), st.data())
def test_costs_of_rounds_are_those_of_all_outcomes(
    sites: list[Prospect], needed: int, message_ms: float, data: st.DataObject
) -> None:
    sites = [each._replace(asked=data.draw(st.booleans())) for each in sites]
    costs = round_costs(sites, needed, message_ms)
    for cost in costs:
        if cost.resources < needed:
            continue
        slow_ms = round_ms(sites, 0, cost.sites, needed, message_ms)
        assert cost.cost_ms == pytest.approx(slow_ms, abs=1e-9)
        polled = list(outcomes(sites[: cost.sites]))
        slow_chance = sum(each.chance for each in polled if each.found >= needed)
        assert cost.chance == pytest.approx(slow_chance, abs=1e-9)
        effort.steps["costs of rounds"] += 1
    assert costs[-1].sites == len(sites)


@settings(max_examples=effort.examples(60), deadline=None)
@given(prospects(discrete(), 4, 2), st.integers(1, 3), st.sampled_from((0.0, 0.5, 3.0)))
def test_the_cost_of_a_repeated_poll_is_that_of_all_outcomes(
    sites: list[Prospect], needed: int, message_ms: float
) -> None:
    for cost in retried_costs(sites, needed, message_ms):
        good = [each for each in outcomes(sites[: cost.sites]) if each.found >= needed]
        chance = sum(each.chance for each in good)
        once_ms = sum(each.chance * each.over_ms(needed) for each in good) / chance
        assert cost.chance == pytest.approx(chance, abs=1e-9)
        assert cost.cost_ms == pytest.approx((once_ms + message_ms * cost.sites) / chance, rel=1e-6)
        effort.steps["repeated polls"] += 1


def unequal_sites(random: Random) -> list[Prospect]:
    delays = [
        Lognormal(random.choice((10.0, 40.0, 80.0, 300.0)), random.choice((0.2, 0.6, 1.0)))
        for _ in range(random.randint(3, 5))
    ]
    return [
        Prospect(f"s{n}", random.randint(1, 2), random.choice((0.02, 0.25, 0.5, 0.75)), delay)
        for n, delay in enumerate(delays)
    ]


def test_the_chosen_order_is_mostly_the_best_of_all_and_never_far_from_it() -> None:
    """All orders stand for all sets of sites, round by round; where enough can be hoped for at all."""
    random = Random(5)
    ratios = []
    while len(ratios) < effort.examples(40):
        sites, needed = unequal_sites(random), random.randint(1, 3)
        if round_costs(sites, needed)[-1].chance < 0.8:
            continue
        least_ms = min(best(round_costs(order, needed)).cost_ms for order in permutations(sites))
        chosen_ms = best(choose(sites, needed).costs).cost_ms
        assert chosen_ms >= least_ms * (1 - 1e-9)
        ratios.append(chosen_ms / least_ms)
        effort.steps["orders of sites"] += 1
    assert sum(ratio < 1.001 for ratio in ratios) >= 0.85 * len(ratios)
    assert sum(ratio < 1.05 for ratio in ratios) >= 0.95 * len(ratios)
    assert max(ratios) < 1.5


def dominates(one: Prospect, other: Prospect) -> bool:
    return (
        one.busy <= other.busy
        and one.resources >= other.resources
        and all(
            one.delay.reached(ms) >= other.delay.reached(ms)
            for ms in (*one.delay.edges, *other.delay.edges)
        )
    )


@settings(max_examples=effort.examples(60), deadline=None)
@given(prospects(discrete(), 6, 2))
def test_who_is_no_worse_in_any_respect_and_better_in_one_is_asked_first(
    sites: list[Prospect],
) -> None:
    for order in orders(sites):
        for place, later in enumerate(order):
            for earlier in order[:place]:
                assert (
                    not dominates(later, earlier)
                    or dominates(earlier, later)
                    or (
                        later.resources * (1 - later.busy) == earlier.resources * (1 - earlier.busy)
                    )
                )


@settings(max_examples=effort.examples(40), deadline=None)
@given(prospects(LOGNORMAL, 30, 3), st.integers(1, 8), st.integers(1, 30))
def test_a_choice_asks_whom_it_must_and_enough_where_there_are_enough(
    sites: list[Prospect], needed: int, at_least: int
) -> None:
    choice = choose(sites, needed, at_least=at_least)
    assert sorted(choice.order) == sorted(sites)
    assert choice.sites >= min(at_least, len(sites))
    addressed = sites[: len(sites) // 2]
    for order in orders([each._replace(asked=each in addressed) for each in sites]):
        assert all(each.asked for each in order[: len(addressed)])
    chosen = sum(each.resources for each in choice.chosen)
    assert chosen >= min(needed, sum(each.resources for each in sites))
    assert choose(list(reversed(sites)), needed, at_least=at_least) == choice


FIGURES = {0.1: (6, 2.0), 0.3: (8, 3.0), 0.5: (11, 4.8), 0.7: (12, 9.9)}
"""For each q the p that was found best by drawing at random, and how much dearer polling only n is."""

FIGURE_K, FIGURE_N = 12, 2
FIGURE_DELAY = Lognormal(80.0, 0.6)


def figure_costs(busy: float) -> list[PollCost]:
    sites = [Prospect(str(number), 1, busy, FIGURE_DELAY) for number in range(FIGURE_K)]
    return retried_costs(sites, FIGURE_N, 4.0)


@pytest.mark.parametrize("busy", FIGURES)
def test_the_figures_of_the_model_come_out(busy: float) -> None:
    polled, ratio = FIGURES[busy]
    costs = figure_costs(busy)
    by_polled = {cost.sites: cost.cost_ms for cost in costs}
    least = best(costs)
    assert abs(least.sites - polled) <= 1
    assert by_polled[polled] <= 1.01 * least.cost_ms
    assert by_polled[FIGURE_N] / least.cost_ms == pytest.approx(ratio, rel=0.08)


def test_the_least_costs_are_where_exact_arithmetic_puts_them() -> None:
    """Order statistics by their textbook densities, for each number of candidates that are free."""
    assert [best(figure_costs(busy)).sites for busy in FIGURES] == [7, 8, 11, 12]
    for busy in FIGURES:
        for cost in figure_costs(busy):
            assert cost.cost_ms == pytest.approx(textbook_ms(cost.sites, busy), rel=2e-3)


def textbook_ms(polled: int, busy: float) -> float:
    chances = {
        free: math.comb(polled, free) * (1 - busy) ** free * busy ** (polled - free)
        for free in range(FIGURE_N, polled + 1)
    }
    enough = sum(chances.values())
    expected_ms = sum(chance * second_smallest_ms(free) for free, chance in chances.items())
    return (expected_ms / enough + 4.0 * polled) / enough


def second_smallest_ms(count: int) -> float:
    """E[X(2)] = integral of x count (count-1) F (1-F)^(count-2) f, over the deviation z."""
    total, step = 0.0, 0.005
    for number in range(-1400, 1400):
        z = (number + 0.5) * step
        below = 0.5 * (1 + math.erf(z / math.sqrt(2)))
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        x_ms = 80.0 * math.exp(0.6 * z)
        total += x_ms * count * (count - 1) * below * (1 - below) ** (count - 2) * density * step
    return total
