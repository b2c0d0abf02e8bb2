"""The order in which to ask sites that differ in load and delay.

A poll is over when enough have said that they are free. For each of several horizons, sites are put in
the order in which they are likely to have said so by then, once by the site and once by the resource: a
short horizon prefers those who answer soon, a long one those who are free. Of these orders the one is
taken in which the best poll costs least. Who is worse in every respect is never asked before a better.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

from kalends.broker.planning.polling.counts import Prospect
from kalends.broker.planning.polling.delays import Delay
from kalends.broker.planning.polling.model import (
    COARSE_CELLS,
    MESSAGE_MS,
    PollCost,
    best,
    round_costs,
)

HORIZONS: Final = (0.2, 0.5, 0.8, 0.99)
"""Shares of all answers that are in at the horizons that are tried."""

FEW_SITES: Final = 4
"""So few are all asked: leaving one out saves a message or two, and may cost a round trip."""

NEEDED_MAX: Final = 32
"""Where more is needed of one term everybody is asked: weighing takes longer than an answer."""

TERMS_MAX: Final = 8
"""The terms of one request that are weighed; where there are more, everybody is asked about all."""

NO_DIFFERENCE: Final = 1e-9


class PollOrder(NamedTuple):
    """The first `sites` of `order` to ask; `costs` has other numbers of them."""

    order: tuple[Prospect, ...]
    sites: int
    costs: tuple[PollCost, ...]

    @property
    def chosen(self) -> tuple[Prospect, ...]:
        return self.order[: self.sites]


def choose(
    prospects: Sequence[Prospect],
    needed: int,
    *,
    at_least: int = 1,
    message_ms: float = MESSAGE_MS,
) -> PollOrder:
    """Return whom to ask: `at_least` as many sites, and all that get a message anyway.

    Everybody, unweighed, where more than `NEEDED_MAX` are needed. Those that get a message in any case
    come first. Of orders that cost the same, the first tried.
    """
    if needed > NEEDED_MAX:
        return PollOrder(tuple(sorted(prospects, key=lambda each: each.site)), len(prospects), ())
    named = sorted(prospects, key=lambda each: (each._replace(site=""), each.site))
    nameless = tuple(prospect._replace(site=str(n)) for n, prospect in enumerate(named))
    at_least = max(at_least, sum(prospect.asked for prospect in prospects))
    choice = _choose(nameless, needed, at_least, message_ms)
    return choice._replace(order=tuple(named[int(prospect.site)] for prospect in choice.order))


@lru_cache(maxsize=1_024)
def _choose(
    prospects: tuple[Prospect, ...], needed: int, at_least: int, message_ms: float
) -> PollOrder:
    """Choose by numbered sites, so that equal ones are weighed once."""
    tried = orders(prospects)
    order = tried[0]
    if len(tried) > 1:
        least_ms = [
            best(round_costs(each, needed, message_ms, at_least, COARSE_CELLS)).cost_ms
            for each in tried
        ]
        limit_ms = min(least_ms) * (1 + NO_DIFFERENCE)
        order = next(each for each, ms in zip(tried, least_ms, strict=True) if ms <= limit_ms)
    costs = round_costs(order, needed, message_ms, at_least)
    sites = len(order) if len(order) <= FEW_SITES else best(costs).sites
    return PollOrder(tuple(order), sites, costs)


def orders(prospects: Sequence[Prospect]) -> list[list[Prospect]]:
    """Return the orders that are worth trying, each once."""
    tried: dict[tuple[str, ...], list[Prospect]] = {}
    for horizon_ms in _horizons_ms(prospects):
        for whole in (True, False):
            order = sorted(prospects, key=partial(_rank, horizon_ms=horizon_ms, whole=whole))
            tried.setdefault(tuple(each.site for each in order), order)
    return list(tried.values())


def _rank(prospect: Prospect, horizon_ms: float, whole: bool) -> tuple[bool, float, float, str]:
    """`whole`: what the site has free in all counts, and not what is free of each resource."""
    free = 1 - prospect.busy
    every = free * prospect.resources
    return (
        not prospect.asked,
        -(every if whole else free) * prospect.delay.reached(horizon_ms),
        -every,
        prospect.site,
    )


def _horizons_ms(prospects: Iterable[Prospect]) -> list[float]:
    """Return the times by which the shares `HORIZONS` of all answers are in."""
    delays = [each.delay for each in prospects]
    if not delays:
        return []
    if len(set(delays)) == 1:
        return [max(delays[0].edges)]
    return [_reached_by(delays, share) for share in HORIZONS]


def _reached_by(delays: Sequence[Delay], share: float) -> float:
    """Bisect to 0.1 %."""
    low, high = 0.0, max(edge for delay in delays for edge in delay.edges)
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        if sum(delay.reached(middle) for delay in delays) < share * len(delays):
            low = middle
        else:
            high = middle
    return high
