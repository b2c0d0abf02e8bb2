"""The result of a simulation, in a line for a terminal and as a table for a notebook."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from kalends.simulation.metrics import Summary
from kalends.simulation.provenance import Provenance
from kalends.simulation.workloads.tally import LineTally

if TYPE_CHECKING:
    from kalends.core.markup import Markup
    from kalends.simulation.classes import ClassMetrics

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


class SimulationResult(Summary, frozen=True, kw_only=True):
    """The result of one policy on one workload: the metrics and their conditions."""

    policy: str
    nodes: int
    predictions: dict[str, float] = {}
    """Accuracy of predicted starts; empty without predictions."""
    by: dict[str, list[ClassMetrics]] = {}
    """The metrics of every class of jobs, by what tells them apart; empty where none was asked for."""
    dropped: dict[str, LineTally] = {}
    """Jobs that could not be simulated, by reason."""
    cut: LineTally = msgspec.field(default_factory=LineTally)
    """Jobs that ran longer than requested in the log, and were stopped there."""
    rounded: LineTally = msgspec.field(default_factory=LineTally)
    """Jobs whose times have decimals in the log: submit times are rounded down, lengths up."""
    parts: LineTally = msgspec.field(default_factory=LineTally)
    """Lines about parts of jobs that were swapped out; the jobs were simulated as a whole."""
    damaged: LineTally = msgspec.field(default_factory=LineTally)
    """Lines of the log that are not jobs, and were skipped."""
    partitions: int = 0
    """Number of partitions that the jobs of the log name; the simulation has one machine for all of them."""
    provenance: Provenance | None = None
    """What made the result; None if it was not simulated."""
    seconds: float = 0.0
    """CPU time of reading, simulating and measuring. Only this and the next differ from run to run."""
    jobs_per_second: float = 0.0

    def __repr__(self) -> str:
        # Imported here, and below, because only people at a terminal or a notebook ask for it.
        from kalends.core.markup import visible

        return (
            f"<SimulationResult {visible(self.policy)}: {self.jobs:,} jobs on {self.nodes:,} nodes, "
            f"mean wait {self.mean_wait_s:,.0f} s, "
            f"mean bounded slowdown {self.mean_bounded_slowdown:,.2f}, "
            f"utilization {self.utilization:.1%}>"
        )

    def _repr_html_(self) -> Markup:
        from kalends.core.markup import element, table

        said = f"{self.jobs:,} jobs on {self.nodes:,} nodes"
        dropped = sum(tally.count for tally in self.dropped.values())
        left_out = f", {dropped:,} others could not be simulated" if dropped else ""
        row = (self.policy, *(say(getattr(self, name)) for name, say in COLUMNS.values()))
        return element("div", element("div", said, left_out), table(("policy", *COLUMNS), [row]))
