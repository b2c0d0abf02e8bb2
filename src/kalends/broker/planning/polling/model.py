"""The cost of polling p of k candidates, and the p of least cost.

"We want n out of k homogeneous resources where (k > n). We can use the algorithm for multiple resource
managers if we send agents to p out of the k resources, but then pick the 'best' (or earliest) time at
which n out of the p polled resources are available. [...] In our model, the expected delay in
scheduling a job is computed for each p using the probability q that a given slot is unavailable. We
then plot a graph of cost versus p to find the p that minimizes the delay." (Ramamoorthi, Rifkin,
Dimitrov and Chandy 1997, section 4, Resource Reservation by Attribute.) The paper prints no formula;
ours are these.

`retried_costs`: a poll of p that finds too few is made again, as a whole::

    cost(p) = (E[time of the n-th available answer among p] + c p) / P(Binomial(p, 1 - q) >= n)

`round_costs`: a poll that finds too few goes on with others, which is what a broker does. With W(s, r)
the least cost of finding r more once s sites have been asked::

    W(s, r) = min over e of  c (e - s) + E[time until r are available, or all have answered]
                             + sum over a < r of  P(a found) W(e, r - a)

A further round at least doubles the number of sites asked. When all have been asked nothing is left to
choose, and W is 0. (A broker goes on as soon as the answers that are out cannot be enough any more, so
that a round that fails costs it a little less than W says.)

Both hold for sites that differ in every respect: `Counts` adds them one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kalends.broker.planning.polling.counts import Counts, Prospect
from kalends.broker.planning.polling.delays import Floats, cells

MESSAGE_MS: Final = 4.0
"""What asking one more site costs, as delay: the work of a question and its answer here and there."""

CELLS: Final = 48
"""Cells of time: the cost of a poll is then off by a thousandth."""

COARSE_CELLS: Final = 12
"""Enough to tell which of two orders is better."""

WORK_MAX: Final = 1_000_000
"""Chances that one calculation may keep up to date: beyond it only every so manieth p is tried."""

PLENTY_PER_NEEDED: Final = 2
PLENTY: Final = 12
"""Polling is not weighed further than where, of each needed, two and a dozen more are expected free."""


class PollCost(NamedTuple):
    """The total cost `cost_ms` of asking the first `sites`, with `resources` together.

    `chance`: that this is enough.
    """

    sites: int
    resources: int
    cost_ms: float
    chance: float


def retried_costs(
    prospects: Sequence[Prospect], needed: int, message_ms: float = MESSAGE_MS
) -> list[PollCost]:
    """Return the cost for every number of sites, in this order, that could be enough."""
    time = cells((each.delay for each in prospects), CELLS)
    counts = Counts(1, needed, time)
    costs = []
    resources = messages = 0
    for number, prospect in enumerate(prospects, 1):
        counts.add(prospect, 1)
        resources += prospect.resources
        messages += not prospect.asked
        chance = float(counts.found[0, -1])
        if resources >= needed and chance > 0:
            once_ms = float(counts.success_ms()[0]) + message_ms * messages
            costs.append(PollCost(number, resources, once_ms / chance, chance))
    return costs


def round_costs(
    prospects: Sequence[Prospect],
    needed: int,
    message_ms: float = MESSAGE_MS,
    at_least: int = 1,
    cells_count: int = CELLS,
) -> tuple[PollCost, ...]:
    """Return the cost for every number of sites, from `at_least`, that could be enough.

    All of them where even that is not enough: there is then nothing to choose. Of very many, only
    so many that more of them would not matter.
    """
    weighed = max(_plenty(prospects, needed), min(at_least, len(prospects)))
    return _round_costs(
        prospects[:weighed], needed, message_ms, min(at_least, weighed), cells_count
    )


def best(costs: Sequence[PollCost]) -> PollCost:
    """Return the least cost, then the one with fewest sites."""
    return min(costs, key=lambda cost: (cost.cost_ms, cost.sites))


def _plenty(prospects: Sequence[Prospect], needed: int) -> int:
    """Return the number of first sites that are certainly enough, or all."""
    expected = accumulate(each.resources * (1 - each.busy) for each in prospects)
    wanted = PLENTY_PER_NEEDED * needed + PLENTY
    return next((n for n, free in enumerate(expected, 1) if free >= wanted), len(prospects))


def _round_costs(
    prospects: Sequence[Prospect], needed: int, message_ms: float, at_least: int, cells_count: int
) -> tuple[PollCost, ...]:
    resources = [0, *accumulate(each.resources for each in prospects)]
    messages = [0, *accumulate(not each.asked for each in prospects)]
    if resources[-1] < needed:
        everybody = PollCost(len(prospects), resources[-1], message_ms * messages[-1], 0.0)
        return (everybody,)
    edges = _edges(len(prospects), needed, cells_count)
    table = _Table(prospects, needed, edges, cells_count)
    value = np.zeros((len(edges), needed + 1))
    """W: at each edge, for 0, 1, ... `needed` that are missing."""
    spent = message_ms * np.array([messages[edge] for edge in edges])
    sizes = np.array([resources[edge] for edge in edges])
    costs = np.empty(0)
    for row in range(len(edges) - 2, -1, -1):
        costs = table.costs(row, value) + (spent[row + 1 :] - spent[row])[:, None]
        allowed = _allowed(edges, row, sizes, needed)
        value[row, 1:] = np.where(allowed, costs, np.inf).min(axis=0)
    chances = table.found[0, :, -1]
    return tuple(
        PollCost(edge, int(sizes[number]), float(costs[number - 1, -1]), float(chances[number - 1]))
        for number, edge in enumerate(edges)
        if edge and ((edge >= at_least and sizes[number] >= needed) or edge == edges[-1])
    )


def _allowed(
    edges: Sequence[int], row: int, sizes: NDArray[np.int64], needed: int
) -> NDArray[np.bool_]:
    """Return the later edges to which a round may go, for 1, 2, ... `needed` missing."""
    ends = np.array(edges[row + 1 :])
    doubled = ends >= min(2 * edges[row], edges[-1])
    enough = (sizes[row + 1 :] - sizes[row])[:, None] >= np.arange(1, needed + 1)
    allowed: NDArray[np.bool_] = (doubled[:, None] & enough) | (ends == edges[-1])[:, None]
    return allowed


def _edges(sites: int, needed: int, cells_count: int) -> list[int]:
    """Return the numbers of sites after which a round may end: all, or a bounded few."""
    rows = max(1, min(sites, WORK_MAX // (cells_count * (needed + 1) * sites)))
    step = -(-sites // rows)
    return [*range(0, sites, step), sites]


class _Table:
    """The duration and the result of a round between any two edges."""

    def __init__(
        self, prospects: Sequence[Prospect], needed: int, edges: Sequence[int], cells_count: int
    ) -> None:
        rows = len(edges) - 1
        counts = Counts(rows, needed, cells((each.delay for each in prospects), cells_count))
        self._needed = needed
        self._over_ms = np.zeros((rows, rows, needed))
        self.found = np.zeros((rows, rows, needed + 1))
        """By first edge, then last edge less one."""
        for column in range(rows):
            for prospect in prospects[edges[column] : edges[column + 1]]:
                counts.add(prospect, column + 1)
            self._over_ms[: column + 1, column] = counts.over_ms(column + 1)
            self.found[: column + 1, column] = counts.found[: column + 1]

    def costs(self, row: int, value: Floats) -> Floats:
        """Return the costs, without messages, of rounds from `row` to each later edge."""
        costs = self._over_ms[row, row:].copy()
        for count in range(self._needed):
            left = value[row + 1 :, 1 : self._needed + 1 - count]
            costs[:, count:] += self.found[row, row:, count, None] * left
        return costs
