"""Results of simulations as tables for a notebook, and in a line for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from kalends.core.markup import Markup, element, safe, table, visible

if TYPE_CHECKING:
    from kalends.simulation.experiment import SimulationResult
    from kalends.simulation.sweeps import Cell

ROWS_MAX: Final = 200

COLUMNS: Final[dict[str, tuple[str, Callable[[float], str]]]] = {
    "mean wait, s": ("mean_wait_s", "{:,.0f}".format),
    "median, s": ("median_wait_s", "{:,.0f}".format),
    "95 %, s": ("p95_wait_s", "{:,.0f}".format),
    "bounded slowdown": ("mean_bounded_slowdown", "{:,.2f}".format),
    "utilization": ("utilization", "{:.2%}".format),
    "makespan, s": ("makespan_s", "{:,.0f}".format),
    "mean queue": ("mean_queue_depth", "{:,.1f}".format),
}
"""What a table tells of each result."""


def result_in_a_line(result: SimulationResult) -> str:
    """Return what matters of a result: which policy, on what, and how long jobs waited."""
    return (
        f"{visible(result.policy)}: {result.jobs:,} jobs on {result.nodes:,} nodes, "
        f"mean wait {result.mean_wait_s:,.0f} s, "
        f"mean bounded slowdown {result.mean_bounded_slowdown:,.2f}, "
        f"utilization {result.utilization:.1%}"
    )


def results_html(results: Sequence[SimulationResult]) -> Markup:
    """Return a table with a row for each of one or more results."""
    rows = [
        (result.policy, *(say(getattr(result, name)) for name, say in COLUMNS.values()))
        for result in results[:ROWS_MAX]
    ]
    first = results[0]
    said = f"{first.jobs:,} jobs on {first.nodes:,} nodes"
    dropped = sum(tally.count for tally in first.dropped.values())
    left_out = f", {dropped:,} others could not be simulated" if dropped else ""
    return element("div", element("div", said, left_out), table(("policy", *COLUMNS), rows))


def cells_html(cells: Sequence[Cell]) -> Markup:
    """Return a table with a row for each cell of a sweep: means, with their confidence intervals of 95 %."""
    rows = [
        (cell.policy, f"{cell.load:g}", *(_mean(cell, *told) for told in COLUMNS.values()))
        for cell in cells[:ROWS_MAX]
    ]
    return element("div", table(("policy", "load", *COLUMNS), rows))


def _mean(cell: Cell, name: str, say: Callable[[float], str]) -> Markup:
    found = cell.estimate(name)
    wide = "" if found.half_width is None else f" \u00b1 {say(found.half_width)}"
    return Markup(f"{safe(say(found.mean))}{wide}")
