"""Busy nodes and waiting jobs over time: step functions of a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, pairwise

import msgspec

from kalends.simulation.schedule import Schedule


class Curve(msgspec.Struct, frozen=True):
    """A step function: ``values[i]`` from ``times[i]`` to ``times[i + 1]``; the last value is 0."""

    times: list[int]
    values: list[int]


def busy_nodes(schedule: Schedule) -> Curve:
    """Return the nodes on which jobs run, over time."""
    return _steps(
        change
        for _, start_s, end_s, nodes in schedule.stretches()
        for change in ((start_s, nodes), (end_s, -nodes))
    )


def queue_depth(schedule: Schedule) -> Curve:
    """Return the jobs submitted and not begun, over time."""
    return _steps(
        chain(
            ((submit_s, 1) for submit_s in schedule.submits),
            ((start_s, -1) for start_s in schedule.starts),
        )
    )


def _steps(changes: Iterable[tuple[int, int]]) -> Curve:
    totals: dict[int, int] = {}
    for time_s, change in changes:
        totals[time_s] = totals.get(time_s, 0) + change
    times = sorted(totals)
    return Curve(times, list(accumulate(totals[time_s] for time_s in times)))


def means(curve: Curve, edges: Sequence[float]) -> list[float]:
    """Return the mean of `curve` between each two neighbours of `edges`, which ascend."""
    times, values = curve.times, curve.values
    found = []
    at = -1
    for start, end in pairwise(edges):
        area, now = 0.0, start
        while now < end:
            while at + 1 < len(times) and times[at + 1] <= now:
                at += 1
            until = min(times[at + 1], end) if at + 1 < len(times) else end
            area += (values[at] if at >= 0 else 0) * (until - now)
            now = until
        found.append(area / (end - start))
    return found


def greatest(curve: Curve, edges: Sequence[float]) -> list[int]:
    """Return the greatest value of `curve` between each two neighbours of `edges`, which ascend."""
    times, values = curve.times, curve.values
    found = []
    at = -1
    for start, end in pairwise(edges):
        while at + 1 < len(times) and times[at + 1] <= start:
            at += 1
        most = values[at] if at >= 0 else 0
        while at + 1 < len(times) and times[at + 1] < end:
            at += 1
            most = max(most, values[at])
        found.append(most)
    return found
