"""What long queues cost in processor time, without a server: one pass, and the starts of all who wait."""

from __future__ import annotations

import random
import statistics
import time
from typing import Final

from kalends.scheduling import Cluster, Job, Reservation, Scheduler, policy_maker
from kalends.scheduling.prediction.frozen import predicted_starts

NODES: Final = 1_024
RESERVATIONS: Final = 200
ENDS: Final = 200
LIMITS_S: Final = (600, 1_800, 3_600, 7_200, 14_400, 43_200)


def random_shapes(count: int, seed: int = 14) -> list[tuple[int, int]]:
    """Return nodes and limits as users ask for them: mostly few nodes, in powers of two or near."""
    draw = random.Random(seed)
    return [
        (min(2 ** draw.randrange(9) + draw.randrange(3), NODES), draw.choice(LIMITS_S))
        for _ in range(count)
    ]


def full_queue(policy: str, waiting: int, reservations: int = 0) -> tuple[Scheduler, int]:
    """Return a live scheduler with about so many jobs that wait, and its time."""
    scheduler = Scheduler(policy_maker(policy)(Cluster(NODES, live=True)))
    if reservations:
        draw = random.Random(reservations)
        came = []
        for number in range(reservations):
            start_s = 3_600 + 1_800 * number + draw.randrange(1_800)
            length_s, nodes = draw.randrange(600, 7_200), draw.randrange(1, NODES // 4)
            came.append(Reservation(start_s, start_s + length_s, nodes, str(number)))
        scheduler.rearrange((), came, 0)
    now = 0
    for number, (nodes, limit_s) in enumerate(random_shapes(waiting)):
        now = number // 100
        scheduler.submit(Job(number, now, nodes, limit_s), now)
    return scheduler, now


def passes_ms(policy: str, waiting: int) -> dict[str, float]:
    """Return what an end costs, with the pass that follows: the median, and the most."""
    scheduler, now = full_queue(policy, waiting)
    costs: list[float] = []
    while scheduler.cluster.ends and len(costs) < ENDS:
        job, now = scheduler.cluster.ends[0][2], now + 1
        began_s = time.process_time()
        scheduler.end(job, now)
        costs.append(1e3 * (time.process_time() - began_s))
    return {"median": statistics.median(costs), "most": max(costs)}


def all_predicted_ms(policy: str, waiting: int, reservations: int) -> float:
    """Return what the starts of all who wait cost, if all take their requested time."""
    scheduler, now = full_queue(policy, waiting, reservations)
    began_s = time.process_time()
    found = predicted_starts(scheduler, now)
    assert len(found) == scheduler.waiting
    return 1e3 * (time.process_time() - began_s)
