"""Choice of the best of the places that sites offered for a job."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from kalends.federation.draws import number_of


class OfferedPlace(NamedTuple):
    """A place in the queue of the machine `resource` of `site`, on `nodes` nodes; times in seconds UTC.

    `firm`: nothing that comes later pushes it beyond `start_by`. Else `p50` and `p90` are what is likely:
    half and nine tenths of such jobs begin by then. What a site does not tell is 0. The job is expected to
    run for `runs_s` seconds, `limit_s` at most (0: as long), and would cost `cost`; `preference_s` is how
    many seconds of waiting it is worth to have it there. `load` percent of the machine's nodes are taken now,
    and the job's may be `shared` with other jobs.
    """

    site: str
    resource: str
    nodes: int
    start_by: int
    p50: int
    p90: int
    runs_s: float
    firm: bool
    cost: float = 0.0
    preference_s: float = 0.0
    limit_s: float = 0.0
    load: int = 0
    shared: bool = False
    transport_s: float = 0.0
    """So long its input takes to the site, before it runs."""
    note: str = ""
    """Words for people."""

    @property
    def counted_start(self) -> float:
        """By when the job has begun, for comparison: surely, or in nine of ten cases; infinite if untold.

        A likely start is not a promise. So the cautious one counts, and not the median, which would win
        against every promise that is as good.
        """
        return (self.start_by if self.firm else self.p90) or inf


def decided_within_s(hold_ms: int) -> int:
    """Return after how many seconds at most a place that is held for `hold_ms` is taken, or is free.

    Nobody is told an earlier start than that: a place is not taken before it is chosen, and what is promised
    in the last second is taken in the next.
    """
    return -(-hold_ms // 1000) + 1


def told_wait_s(told_start_s: int, hold_ms: int, now_s: int) -> int:
    """Return how long a job would wait by a bid that tells this start.

    One within the time for the decision is told of nodes that are free, too.
    """
    wait_s = told_start_s - now_s
    return wait_s if wait_s > decided_within_s(hold_ms) else 0


def best_first(
    offered: Iterable[OfferedPlace], rid: str, cost_weight_s: float = 0.0
) -> list[OfferedPlace]:
    """Return the places, the best for the request `rid` first.

    Best is the earliest end: start and run time, and `cost_weight_s` seconds for each unit of cost, less
    what the place is preferred. Of equal ones the firm first, then by a hash of request and site: so that
    equal sites each win about as often, and every replica comes to the same. The numbers must be finite.
    """

    def rank(place: OfferedPlace) -> tuple[float, bool, int, OfferedPlace]:
        price_s = cost_weight_s * place.cost - place.preference_s
        ends = place.counted_start + place.transport_s + place.runs_s + price_s
        return ends, not place.firm, number_of(rid, place.site), place

    return sorted(offered, key=rank)
