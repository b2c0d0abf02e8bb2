"""A policy of one's own beside two that come with kalends, on the same small workload."""

from __future__ import annotations

from kalends.scheduling import Cluster, Scheduler, policy_maker
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay

NODES = 8
JOBS = [
    # submitted at, nodes, runs for, by user
    (0, 6, 50, 1),
    (1, 4, 40, 1),
    (2, 2, 30, 2),
    (3, 2, 10, 2),
    (4, 8, 20, 3),
    (5, 1, 60, 1),
]


def main() -> None:
    for policy in ("fcfs", "easy", "my_policy:OnePerUser", "my_policy:OnePerUser:3"):
        scheduler = Scheduler(policy_maker(policy)(Cluster(NODES)))
        jobs = [
            SimulatedJob(
                id=number, submit_s=at, nodes=nodes, requested_s=length, run_s=length, user=user
            )
            for number, (at, nodes, length, user) in enumerate(JOBS, 1)
        ]
        ended = sorted(replay(jobs, scheduler), key=lambda job: job.start_s)
        waited = sum(job.start_s - job.submit_s for job in ended) / len(ended)
        print(f"{policy}: {waited:.1f} s mean wait")
        print("  " + ", ".join(f"job {job.id} at {job.start_s}" for job in ended))


if __name__ == "__main__":
    main()
