"""Replay a workload from Python: metrics, a policy of one's own, and who waited the longest."""

from __future__ import annotations

from pathlib import Path

import kalends
from kalends.scheduling.policies.ordered.queue import QueuePolicy
from kalends.simulation.schedule import Schedule

LOG = Path(__file__).parent / "data" / "sdsc-sp2-excerpt.swf"


class NarrowFirst(QueuePolicy):
    """Whoever fits starts, those with the fewest nodes first."""

    def schedule(self, now: int) -> None:
        for job in sorted(self.queue, key=lambda job: (job.nodes, job.order)):
            if self.cluster.start(job, now):
                self.queue.remove(job)


for policy in ("fcfs", "easy", NarrowFirst):
    result = kalends.simulate(LOG, policy=policy)
    print(
        f"{result.policy:12} mean wait {result.mean_wait_s:9,.1f} s, "
        f"bounded slowdown {result.mean_bounded_slowdown:7.2f}, utilization {result.utilization:.1%}"
    )

# A watcher sees every job when it has ended.
schedule = Schedule()
kalends.simulate(LOG, policy="easy", watchers=[schedule.add])
waits = [start - submit for start, submit in zip(schedule.starts, schedule.submits, strict=True)]
longest = max(range(len(schedule)), key=waits.__getitem__)
print(
    f"job {schedule.ids[longest]} waited longest: {waits[longest]:,} s for {schedule.widths[longest]} nodes"
)

# By class of job: whose jobs they are, how wide or how long.
for users in kalends.simulate(LOG, policy="easy", by=["user"]).by["user"][:3]:
    print(f"user {users.name:3} {users.jobs:3} jobs, mean wait {users.mean_wait_s:9,.1f} s")

# Jobs of one's own: three at once, on two nodes.
jobs = [
    kalends.SimulatedJob(id=number, submit_s=0, nodes=1, requested_s=60, run_s=60)
    for number in range(1, 4)
]
result = kalends.simulate(jobs, nodes=2)
print(
    f"{result.jobs} jobs, the last one waited {result.max_wait_s} s; makespan {result.makespan_s} s"
)
