"""A grid of clusters by itself: where jobs are placed, what crossing costs, what co-allocation costs."""

from __future__ import annotations

from random import Random

from papers.oracles import even, saturated_utilization, total
from papers.saturation import all_at_once, utilization_while_waiting

from kalends.scheduling.grid_spec import grid_from
from kalends.scheduling.job import Components
from kalends.scheduling.policies.backfill.easy import Easy
from kalends.scheduling.policies.ordered.fcfs import Fcfs
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.co_allocation import drawn
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay


def job(number: int, kind: str, *nodes: int) -> SimulatedJob:
    return SimulatedJob(
        id=number, submit_s=0, nodes=sum(nodes), requested_s=3600, run_s=3600,
        components=Components(kind, nodes),
    )  # fmt: skip


print("Two fast clusters and a slow one; crossing costs 10 %, and 5 % for every further cluster:")
grid = grid_from("grid:32+32+16@0.5", crossing="once:0.1,each:0.05")
jobs = [
    job(1, "ordered", 8, 0, 8),
    job(2, "unordered", 20, 24),
    job(3, "total", 12),
    job(4, "total", 20),
    job(5, "total", 8),
]
for ended in sorted(replay(jobs, Scheduler(Easy(grid))), key=lambda each: each.id):
    assert ended.components
    print(
        f"  job {ended.id}  {ended.components.kind:<9}  {ended.components.nodes!s:<10}"
        f"  on {ended.placed!s:<12}  from {ended.start_s:>5} to {ended.end_s:>5}"
        f"  ({ended.stretch:.2f} times as long)"
    )

print(
    "\nFour clusters of 32, jobs of four components of 1 to 16 nodes that never stop coming, FCFS:"
)
sizes = [even(1, 16)] * 4
print(f"  exact, ordered            {float(saturated_utilization([32] * 4, sizes)):.4f}")
for kind in ("ordered", "unordered", "total"):
    log = drawn(all_at_once(4_000, 1_000_000, Random(1)), kind, [(1, 16)] * 4, Random(2))
    used = utilization_while_waiting(log, Fcfs(grid_from("grid:32+32+32+32")))
    print(f"  simulated, {kind:<14} {used:.4f}")
print(f"  exact, one cluster of 128 {float(saturated_utilization([128], [total(sizes)])):.4f}")
