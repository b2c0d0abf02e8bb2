"""Exact answers from queueing theory, to hold the simulator against.

`multi_server` is the M/M/m queue (Jones and Pang 2003, section 2), `single_server_wait` the mean wait of
M/G/1. `saturated_utilization` is the most
that first come, first served gets out of nodes when parallel jobs never stop coming, with exponential
service times independent of the sizes (Bucur and Epema, IPDPS 2003); co-allocated jobs that name the
cluster of each component are covered too. All pure arithmetic; times in whatever unit the rates have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import fsum, inf, isfinite, lcm, prod

import msgspec

from kalends.core.errors import InvalidInput

Sizes = Mapping[int, Fraction]
"""Probabilities of the numbers of nodes of a job or component; they sum up to 1."""


class MultiServerQueue(msgspec.Struct, frozen=True):
    """The steady state of M/M/m, with the symbols of Jones and Pang 2003, section 2."""

    empty: float
    """p0: the probability of an empty system (equation 3)."""
    must_wait: float
    """The chance that an arriving job must wait: Erlang's C."""
    mean_queue: float
    """Nq: how many wait (equation 7)."""
    mean_wait: float
    """W = Nq / arrival rate."""
    mean_response: float
    """T = W + 1 / service rate."""
    busy_servers: float
    """U: how many servers are busy (equation 8)."""
    utilization: float
    """U / m."""


def multi_server(arrival_rate: float, service_rate: float, servers: int) -> MultiServerQueue:
    """Return the M/M/m queue: Poisson arrivals, exponential service, `servers` servers, one queue in order.

    Raises `InvalidInput` where the queue would grow for ever, and for rates that are not above 0.
    """
    if servers < 1 or not all(isfinite(r) and r > 0 for r in (arrival_rate, service_rate)):
        raise InvalidInput(
            f"rates {arrival_rate:g} and {service_rate:g} with {servers} servers",
            where="queue",
            remedy="give rates above 0 and one server or more",
        )
    offered = arrival_rate / service_rate
    load = offered / servers
    if load >= 1:
        raise InvalidInput(
            f"{offered:g} servers' work arrives for {servers}",
            where="queue",
            remedy="give more servers, fewer arrivals or faster service",
        )
    # Erlang B by its recursion: no power and no factorial that could overflow.
    blocked = 1.0
    terms = [1.0]
    for server in range(1, servers + 1):
        blocked = offered * blocked / (server + offered * blocked)
        terms.append(terms[-1] * offered / server)
    must_wait = blocked / (1 - load * (1 - blocked))
    mean_queue = must_wait * load / (1 - load)
    return MultiServerQueue(
        empty=1 / (fsum(terms[:-1]) + terms[-1] / (1 - load)),
        must_wait=must_wait,
        mean_queue=mean_queue,
        mean_wait=mean_queue / arrival_rate,
        mean_response=mean_queue / arrival_rate + 1 / service_rate,
        busy_servers=offered,
        utilization=load,
    )


def single_server_wait(arrival_rate: float, mean: float, mean_square: float) -> float:
    """Return the mean wait in M/G/1 in order of arrival, for service times of any distribution.

    That of Pollaczek and Khinchine (Law and Kelton 2000, appendix 1B), from the `mean` service time
    and the mean of its square. Raises `InvalidInput` where the queue would grow for ever, and for
    moments that no service times have.
    """
    load = arrival_rate * mean
    if not (arrival_rate > 0 and mean > 0 and mean * mean <= mean_square < inf and load < 1):
        raise InvalidInput(
            f"a load of {load:g}, service times of mean {mean:g} and mean square {mean_square:g}",
            where="queue",
            remedy="give a load between 0 and 1, and a mean square of at least the mean's square",
        )
    return arrival_rate * mean_square / (2 * (1 - load))


def even(first: int, last: int) -> dict[int, Fraction]:
    """Return all sizes from `first` to `last`, each as likely as the others."""
    count = last - first + 1
    return {size: Fraction(1, count) for size in range(first, last + 1)}


def total(components: Sequence[Sizes]) -> dict[int, Fraction]:
    """Return the size of a job of independent components."""
    summed: dict[int, Fraction] = {0: Fraction(1)}
    for sizes in components:
        further: dict[int, Fraction] = {}
        for taken, chance in summed.items():
            for size, other in sizes.items():
                further[taken + size] = further.get(taken + size, Fraction()) + chance * other
        summed = further
    return summed


def jobs_in_order(nodes: int, sizes: Sizes) -> list[Fraction]:
    """Return `[k]`: the probability that the first k + 1 jobs fit on `nodes` nodes; the last is 0.

    Raises `InvalidInput` for sizes below 1 or above `nodes`, and chances that do not sum up to 1.
    """
    if not sizes or min(sizes) < 1 or max(sizes) > nodes or sum(sizes.values()) != 1:
        raise InvalidInput(
            f"sizes of {sorted(sizes)[:8]} on {nodes} nodes",
            where="sizes",
            remedy=f"give sizes from 1 to {nodes}, with probabilities that sum up to 1",
        )
    # Whole numbers with one denominator: exact, and much faster than fractions.
    whole = lcm(*(chance.denominator for chance in sizes.values()))
    weights = [(size, int(chance * whole)) for size, chance in sizes.items() if chance]
    chances = []
    summed, denominator = {0: 1}, 1
    while summed:
        further: dict[int, int] = {}
        for taken, ways in summed.items():
            for size, weight in weights:
                if taken + size <= nodes:
                    further[taken + size] = further.get(taken + size, 0) + ways * weight
        summed, denominator = further, denominator * whole
        chances.append(Fraction(sum(summed.values()), denominator))
    return chances


def saturated_utilization(nodes: Sequence[int], components: Sequence[Sizes]) -> Fraction:
    """Return the utilization when jobs in order never stop coming: ``E[size] / (nodes E[1 / N])``.

    N is how many of a line of independent jobs fit at once. A job has an independent component on each
    cluster, `nodes[i]` the size of cluster i and `components[i]` the sizes of the component there: an
    *ordered* request. One cluster is the ordinary case. Exact. Raises `InvalidInput` as `jobs_in_order`.
    """
    if len(nodes) != len(components) or not nodes:
        raise InvalidInput(
            f"{len(nodes)} clusters and {len(components)} components",
            where="components",
            remedy="give the sizes of one component for each cluster",
        )
    fitting = map(jobs_in_order, nodes, components)
    at_least = [prod(chances) for chances in zip(*fitting, strict=False)]
    inverse = sum(
        ((here - next_) / jobs for jobs, (here, next_) in enumerate(pairwise(at_least), 1)),
        Fraction(),
    )
    mean = sum(
        (size * chance for sizes in components for size, chance in sizes.items()), Fraction()
    )
    return mean / (sum(nodes) * inverse)
