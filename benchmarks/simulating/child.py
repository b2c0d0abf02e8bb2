"""Runs in a process of its own: LAYERS LOG NODES POLICY. Leaves out what is not asked for.

``read`` only reads the log; ``replay`` also replays it; ``measure`` also measures the schedule;
``queue3000`` replays 3,000 jobs and prints what one costs in their middle third, and how many wait then.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Iterator
from itertools import islice
from time import process_time

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.registry import policy_maker
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.experiment import simulate
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay
from kalends.simulation.workloads.swf import open_log


def main(layers: str, log: str, nodes: int, policy: str) -> None:
    if layers == "measure":
        simulate(log, policy=policy, nodes=nodes)
        return
    jobs = open_log(log, nodes=nodes)
    # All start alike: with the policy loaded, though only some use it.
    scheduler = Scheduler(policy_maker(policy)(Cluster(nodes)))
    if layers == "read":
        deque(jobs, maxlen=0)
    elif layers == "replay":
        deque(replay(jobs, scheduler), maxlen=0)
    else:
        print(json.dumps(in_the_middle(replay(jobs, scheduler), scheduler, int(layers[5:]))))


def in_the_middle(
    ended: Iterator[SimulatedJob], scheduler: Scheduler, jobs: int
) -> dict[str, float]:
    """What a job costs from the first third of `jobs` ended to the second, in microseconds."""
    third = jobs // 3
    deque(islice(ended, third), maxlen=0)
    waiting, began_s = scheduler.waiting, process_time()
    deque(islice(ended, third), maxlen=0)
    us = (process_time() - began_s) / third * 1e6
    return {"us": us, "waiting": (waiting + scheduler.waiting) / 2}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
